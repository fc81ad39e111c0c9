//! Counted workloads: events of the threads of a workload, of PMUs outside of the cores, and counts
//! of the kernel.

use crate::clock::nanoseconds;
use crate::counters::{Attachment, OpenCounters};
use crate::interrupt;
use crate::{probe, program, Root};
use numaio_machine::counters::{
    Count, Counter, CounterScope, CounterSource, KernelCounts, MissingCounter, NodeCpus,
};
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeError};
use numaio_machine::process;
use numaio_machine::workload::{CountedTarget, CountedWorkload};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait between checks for an interrupt, and for the end of a process that is observed.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// Runs a workload and counts its events. `limit_bytes` are the bytes that the control group still
/// allows.
///
/// # Errors
/// As the counted workload. A counter that cannot be read is an outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &CountedWorkload,
) -> Result<CountedOutcome, ProbeError> {
    let began = Instant::now();
    let nodes = NodeCpus::read(root);
    let wants_files = workload.counters.iter().any(|counter| counter.scope() != CounterScope::Threads);
    let files = || match wants_files {
        true => KernelCounts::read(root, &nodes),
        false => KernelCounts::default(),
    };
    let before = files();
    let attachment = match &workload.target {
        CountedTarget::Copy(_) | CountedTarget::Stream(_) => Attachment::NewThreads,
        CountedTarget::Program(_) | CountedTarget::Command { .. } => Attachment::NewPrograms,
        CountedTarget::Process { pid, .. } => Attachment::Process(*pid),
    };
    let mut counters = OpenCounters::open(root, &nodes, &workload.counters, attachment)?;
    let outcome = run_target(root, limit_bytes, &workload.target, &counters)?;
    let counted_ns = counters.counted_ns();
    let (mut counts, mut missing) = counters.finish();
    let after = files();
    add_kernel_counts(&workload.counters, (&before, &after), &mut counts, &mut missing);
    complete_reasons(&workload.counters, &counts, &mut missing);
    let (elapsed_ns, outcome) = (nanoseconds(began), outcome.map(Box::new));
    let ended_early = match &workload.target {
        CountedTarget::Process { milliseconds, .. } => counted_ns < u64::from(*milliseconds) * 1_000_000,
        _ => false,
    };
    Ok(CountedOutcome { outcome, counted_ns, elapsed_ns, ended_early, counts, missing })
}

fn run_target(
    root: &Root,
    limit_bytes: Option<u64>,
    target: &CountedTarget,
    counters: &OpenCounters,
) -> Result<Option<Outcome>, ProbeError> {
    match target {
        CountedTarget::Copy(copy) => {
            probe::copy(root, limit_bytes, copy, Some(counters)).map(|outcome| Some(Outcome::Copy(outcome)))
        }
        CountedTarget::Stream(stream) => probe::stream(root, limit_bytes, stream, Some(counters))
            .map(|outcome| Some(Outcome::Stream(outcome))),
        CountedTarget::Program(program) => {
            counters.enable();
            let outcome = program::run(root, program);
            counters.disable();
            outcome.map(|outcome| Some(Outcome::Program(outcome)))
        }
        CountedTarget::Command { command, time_limit_ms } => {
            counters.enable();
            let outcome = program::run_unbound(root, command, *time_limit_ms);
            counters.disable();
            outcome.map(|outcome| Some(Outcome::Program(outcome)))
        }
        CountedTarget::Process { pid, milliseconds } => {
            let start_time = process::start_time(root, *pid);
            let is_running = || start_time.is_some() && process::start_time(root, *pid) == start_time;
            counters.enable();
            let outcome = wait(Duration::from_millis(u64::from(*milliseconds)), &is_running);
            counters.disable();
            outcome.map(|()| None)
        }
    }
}

/// Waits for a time, or until a process ends.
///
/// # Errors
/// [`ProbeError::Interrupted`].
fn wait(time: Duration, is_running: &dyn Fn() -> bool) -> Result<(), ProbeError> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !is_running() {
            return Ok(());
        }
        if interrupt::interrupted() {
            return Err(ProbeError::Interrupted);
        }
        thread::sleep(left.min(WAIT_STEP));
    }
}

/// Leaves one reason for each requested counter without a count.
fn complete_reasons(wanted: &[Counter], counts: &[Count], missing: &mut Vec<MissingCounter>) {
    let is_counted = |counter: Counter| counts.iter().any(|count| count.counter == counter);
    missing.retain(|missing| wanted.contains(&missing.counter) && !is_counted(missing.counter));
    missing.sort_by_key(|missing| missing.counter);
    missing.dedup_by_key(|missing| missing.counter);
    for counter in wanted.iter().filter(|counter| !is_counted(**counter)) {
        if !missing.iter().any(|missing| missing.counter == *counter) {
            let source = match counter.scope() {
                CounterScope::Threads => CounterSource::PerfEvent,
                CounterScope::Node | CounterScope::Machine => CounterSource::Vmstat,
            };
            let reason = "the threads ended, or the count was reset".to_owned();
            missing.push(MissingCounter { counter: *counter, source, reason });
        }
    }
}

/// Adds the growth of the kernel's counts to those of requested counters.
fn add_kernel_counts(
    wanted: &[Counter],
    (before, after): (&KernelCounts, &KernelCounts),
    counts: &mut Vec<Count>,
    missing: &mut Vec<MissingCounter>,
) {
    let grown = after.since(before).into_iter().filter(|(counter, ..)| wanted.contains(counter));
    counts.extend(grown.map(|(counter, node, count)| Count {
        counter,
        node,
        source: count.source,
        event: count.event,
        raw: count.value,
        enabled_ns: 0,
        running_ns: 0,
    }));
    missing.extend(after.missing.iter().filter(|missing| wanted.contains(&missing.counter)).cloned());
}
