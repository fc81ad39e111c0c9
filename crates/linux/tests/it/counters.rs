//! Counted workloads on the test machine. Software events, numastat and vmstat need no PMU.

use crate::allowed::{cpus, node};
use numaio_linux::Kernel;
use numaio_machine::conformance;
use numaio_machine::counters::{perf_event_paranoid, Counter, CounterSource};
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, CountedTarget, CountedWorkload, Flow, Pages, Placement, ProgramWorkload, Sampling,
};
use std::io::Write;

fn kernel() -> Kernel {
    Kernel::new().expect("a kernel")
}

fn one_cpu() -> CpuSet {
    CpuSet::one(cpus().first().expect("a CPU"))
}

fn copy() -> CopyWorkload {
    CopyWorkload {
        flow: Flow { source: node(), sink: node() },
        placement: Placement { cpus: one_cpu() },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: 4 << 20,
        pages: Pages::Base,
        sampling: Sampling::Window { milliseconds: 40, slices: 4 },
    }
}

fn counted(target: CountedTarget) -> CountedOutcome {
    kernel().counted(&CountedWorkload { counters: Counter::ALL.to_vec(), target }).expect("a valid workload")
}

fn value(outcome: &CountedOutcome, counter: Counter) -> Option<f64> {
    outcome.counts.iter().find(|count| count.counter == counter).and_then(|count| count.value())
}

/// Whether the kernel counts events; a container may forbid it.
fn counts_events() -> bool {
    let is_possible = perf_event_paranoid(&kernel()).is_some_and(|level| level <= 2);
    if !is_possible {
        let _ = writeln!(std::io::stderr(), "skipped: perf_event_paranoid forbids counting");
    }
    is_possible
}

#[test]
fn kernel_passes_the_conformance_checks_of_counted_workloads() {
    conformance::counted(&kernel(), &copy());
}

#[test]
fn page_faults_of_preparation_are_not_counted() {
    let outcome = counted(CountedTarget::Copy(copy()));
    let pages = 2 * copy().bytes_per_thread / 4096;
    if counts_events() {
        let faults = value(&outcome, Counter::PageFaults).expect("a count");
        assert!(faults < pages as f64 / 2.0, "{faults} faults for {pages} pages that were touched before");
    }
    let allocated: u64 = outcome
        .counts
        .iter()
        .filter(|count| count.counter == Counter::NumaHit && count.node == Some(node()))
        .map(|count| count.raw)
        .sum();
    if kernel().exists("/sys/devices/system/node/node0/numastat") {
        assert!(allocated > 0, "numastat covers the preparation: {outcome:?}");
    }
}

#[test]
fn children_of_a_program_are_counted() {
    let line = "x=$(head -c 4000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let program = ProgramWorkload {
        command: ["sh", "-c", line].map(str::to_owned).to_vec(),
        placement: Placement { cpus: one_cpu() },
        memory: node(),
        time_limit_ms: 60_000,
    };
    let outcome = counted(CountedTarget::Program(program.clone()));
    let Some(Outcome::Program(ran)) = outcome.outcome.as_deref() else { panic!("{outcome:?}") };
    assert_eq!(ran.output.stdout, "4000000\n");
    if counts_events() {
        let faults = value(&outcome, Counter::PageFaults).expect("a count");
        assert!(faults > 500.0, "{faults} faults of 4 MB and two processes");
    }
    let command = CountedTarget::Command { command: program.command, time_limit_ms: 60_000 };
    let outcome = counted(command);
    if counts_events() {
        assert!(value(&outcome, Counter::PageFaults).is_some_and(|faults| faults > 500.0), "{outcome:?}");
    }
}

#[test]
fn running_process_is_counted_for_a_time() {
    let busy = std::thread::spawn(|| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut touched = 0u64;
        while std::time::Instant::now() < end && !DONE.load(std::sync::atomic::Ordering::Relaxed) {
            let pages = vec![1u8; 1 << 20];
            touched += std::hint::black_box(&pages).len() as u64;
        }
        touched
    });
    let outcome = counted(CountedTarget::Process { pid: std::process::id(), milliseconds: 100 });
    DONE.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(busy.join().expect("no panic") > 0);
    assert!(
        outcome.outcome.is_none() && outcome.counted_ns >= 100_000_000 && !outcome.ended_early,
        "{outcome:?}"
    );
    if counts_events() {
        assert!(value(&outcome, Counter::PageFaults).is_some(), "{outcome:?}");
    }
}

#[test]
fn process_that_ends_is_counted_until_then() {
    let mut child = std::process::Command::new("sleep").arg("0.2").spawn().expect("sleep");
    let outcome = counted(CountedTarget::Process { pid: child.id(), milliseconds: 30_000 });
    drop(child.wait());
    assert!(outcome.ended_early && outcome.counted_ns < 20_000_000_000, "{outcome:?}");
}

static DONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[test]
fn missing_hardware_counters_have_a_reason() {
    let outcome = counted(CountedTarget::Copy(copy()));
    for missing in &outcome.missing {
        assert!(!missing.reason.is_empty() && missing.source != CounterSource::Simulated, "{missing:?}");
    }
    let is_named = |counter| {
        outcome.missing.iter().any(|missing| missing.counter == counter) != value(&outcome, counter).is_some()
    };
    assert!(is_named(Counter::Cycles) && is_named(Counter::MbmLocalBytes) && is_named(Counter::LinkBytes));
}
