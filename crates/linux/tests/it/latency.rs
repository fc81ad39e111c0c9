//! Pointer chases on the test machine, which needs just one node with memory.

use crate::allowed::{cpus, node};
use numaio_linux::Kernel;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{LatencyOutcome, ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{LatencyWorkload, LoadWorkload, Pages, Placement};
use std::io::Write as _;
use std::time::Instant;

const MIB: u64 = 1 << 20;

fn idle() -> LatencyWorkload {
    LatencyWorkload {
        cpu: cpus().first().expect("a CPU"),
        memory: node(),
        bytes: 8 * MIB,
        stride_bytes: 128,
        pages: Pages::Base,
        milliseconds: 40,
        slices: 8,
        load: None,
    }
}

/// Returns a load by all other CPUs; none on a machine with one CPU.
fn load(gap_ns: u32) -> Option<LoadWorkload> {
    let first = idle().cpu;
    let others: CpuSet = cpus().iter().filter(|cpu| *cpu != first).collect();
    let load = LoadWorkload {
        placement: Placement { cpus: others },
        memory: node(),
        bytes_per_thread: 3 * MIB + 1000,
        gap_ns,
    };
    Some(load).filter(|load| !load.placement.cpus.is_empty())
}

fn run(workload: &LatencyWorkload) -> Result<LatencyOutcome, ProbeError> {
    Kernel::new().expect("a kernel").latency(workload)
}

/// Runs a workload and checks the invariants of every outcome.
fn checked(workload: &LatencyWorkload) -> LatencyOutcome {
    let began = Instant::now();
    let outcome = run(workload).expect("a result");
    let wall_ns = began.elapsed().as_nanos() as u64;
    assert_eq!(outcome.samples.len(), workload.slices as usize);
    let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    assert!(sampled >= u64::from(workload.milliseconds) * 1_000_000, "{sampled} ns");
    assert!(sampled <= outcome.elapsed_ns && outcome.elapsed_ns <= wall_ns, "{outcome:?}");
    assert!(outcome.samples.iter().all(|sample| sample.loads > 0 && sample.ns > 0), "{outcome:?}");
    assert_eq!((outcome.residency.pages_misplaced, outcome.residency.misplaced_on), (0, None), "{outcome:?}");
    if let Some(pages) = outcome.residency.pages_checked.filter(|_| workload.pages == Pages::Base) {
        // Before and after.
        assert_eq!(pages, 2 * workload.bytes.div_ceil(numaio_linux::memory::page_bytes() as u64));
    }
    outcome
}

#[test]
fn follows_chains_of_every_length() {
    for (bytes, stride_bytes) in
        [(64, 64), (128, 64), (1000, 64), (4096, 4096), (MIB + 100, 192), (9 * MIB, 128)]
    {
        for pages in [Pages::Base, Pages::Transparent] {
            let outcome = checked(&LatencyWorkload { bytes, stride_bytes, pages, ..idle() });
            assert_eq!(outcome.load, None);
        }
    }
}

#[test]
fn load_is_counted_over_the_sampled_time() {
    let Some(full) = load(0) else {
        let _ = writeln!(std::io::stderr(), "skipped: loaded latency: needs a second CPU");
        return;
    };
    let read = |load: LoadWorkload| {
        let outcome = checked(&LatencyWorkload { load: Some(load), ..idle() });
        let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
        let load = outcome.load.expect("what the load did");
        assert_eq!(load.ns, sampled);
        assert_eq!(load.residency.pages_misplaced, 0);
        load.bytes_read
    };
    read(full.clone());
    // A gap of 1 ms after each piece allows 40 pieces in 40 ms, plus one more that starts, per
    // thread. Without gaps it reads far more, unless another program keeps the CPU busy.
    let threads = full.placement.cpus.len() as u64;
    let most = LoadWorkload::PIECE_BYTES * threads * (41 * 2);
    let few = read(LoadWorkload { gap_ns: 1_000_000, ..full });
    assert!(few <= most, "{few} bytes with gaps");
}

#[test]
fn missing_memory_is_reported_before_allocation() {
    let short = |workload: LatencyWorkload| match run(&workload) {
        Err(ProbeError::NoMemory { node: short, needed_bytes, free_bytes }) => {
            assert_eq!(short, node());
            assert!(needed_bytes >= 1 << 50 && free_bytes < 1 << 50);
        }
        other => unreachable!("{other:?}"),
    };
    for bytes in [1 << 50, u64::MAX] {
        short(LatencyWorkload { bytes, ..idle() });
        if let Some(load) = load(0) {
            let load = Some(LoadWorkload { bytes_per_thread: bytes, ..load });
            short(LatencyWorkload { load, ..idle() });
        }
    }
}

#[test]
fn rejects_invalid_workloads() {
    let mut bad: Vec<LatencyWorkload> =
        [0, 1, 8, 63, 65, 100].map(|stride_bytes| LatencyWorkload { stride_bytes, ..idle() }).into();
    bad.extend([0, 1, 127].map(|bytes| LatencyWorkload { bytes, ..idle() }));
    bad.extend([0, u32::MAX].map(|slices| LatencyWorkload { slices, ..idle() }));
    bad.push(LatencyWorkload { milliseconds: 0, ..idle() });
    bad.push(LatencyWorkload { memory: NodeId(987), ..idle() });
    bad.push(LatencyWorkload { cpu: CpuId(8190), ..idle() });
    let load = LoadWorkload {
        placement: Placement { cpus: CpuSet::one(CpuId(8190)) },
        memory: node(),
        bytes_per_thread: MIB,
        gap_ns: 0,
    };
    let of = |cpus| LoadWorkload { placement: Placement { cpus }, ..load.clone() };
    let loads = [
        of(CpuSet::new()),
        of(CpuSet::one(idle().cpu)),
        LoadWorkload { bytes_per_thread: 0, ..load.clone() },
        LoadWorkload { memory: NodeId(987), ..load.clone() },
        load.clone(),
    ];
    bad.extend(loads.map(|load| LatencyWorkload { load: Some(load), ..idle() }));
    for workload in bad {
        let result = run(&workload);
        assert!(matches!(result, Err(ProbeError::Refused { .. })), "{workload:?} gave {result:?}");
    }
}
