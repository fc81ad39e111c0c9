//! STREAM on the test machine, which needs just one node with memory.

use crate::allowed::{cpus, node};
use numaio_linux::{stream, Kernel};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{ProbeError, ProbeExt, StreamOutcome};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Pages, Placement, Sampling, StreamLoop, StreamOp, StreamWorkload};
use std::time::Instant;

const MIB: u64 = 1 << 20;

const WINDOW: Sampling = Sampling::Window { milliseconds: 40, slices: 10 };

fn workload(op: StreamOp, sampling: Sampling) -> StreamWorkload {
    StreamWorkload {
        op,
        stream_loop: StreamLoop::Ordinary,
        memory: node(),
        placement: Placement { cpus: cpus() },
        bytes_per_array: MIB,
        pages: Pages::Base,
        sampling,
    }
}

fn run(workload: &StreamWorkload) -> Result<StreamOutcome, ProbeError> {
    Kernel::new().expect("a kernel").stream(workload)
}

/// Runs a workload and checks the invariants of every outcome.
fn checked(workload: &StreamWorkload) -> StreamOutcome {
    let began = Instant::now();
    let outcome = run(workload).expect("a result");
    let wall_ns = began.elapsed().as_nanos() as u64;
    let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    assert!(sampled <= outcome.elapsed_ns && outcome.elapsed_ns <= wall_ns, "{outcome:?}");
    assert_eq!((outcome.residency.pages_misplaced, outcome.residency.misplaced_on), (0, None), "{outcome:?}");
    if let Some(pages) = outcome.residency.pages_checked.filter(|_| workload.pages == Pages::Base) {
        let arrays = u64::from(workload.op.arrays()) * workload.placement.cpus.len() as u64;
        let of_an_array = workload.bytes_per_array.div_ceil(numaio_linux::memory::page_bytes() as u64);
        // Before and after; an unaligned array may touch one more page.
        let least = 2 * arrays * of_an_array;
        assert!((least..=least + 2 * arrays).contains(&pages), "{pages} pages of {arrays} arrays");
    }
    outcome
}

#[test]
fn every_loop_and_operation_fills_all_slices_of_a_window() {
    for (stream_loop, op) in StreamLoop::ALL.into_iter().flat_map(|l| StreamOp::ALL.map(|op| (l, op))) {
        let workload = StreamWorkload { stream_loop, ..workload(op, WINDOW) };
        if !stream::available(stream_loop) {
            assert!(matches!(run(&workload), Err(ProbeError::Unsupported { .. })), "{stream_loop}");
            continue;
        }
        let outcome = checked(&workload);
        assert_eq!(outcome.samples.len(), 10, "{stream_loop}");
        assert!(outcome.samples.iter().all(|sample| sample.ns == 4_000_000), "{stream_loop}");
        assert!(outcome.samples.iter().any(|sample| sample.bytes > 0), "{stream_loop}");
    }
}

#[test]
fn repetitions_count_complete_doubles_of_each_array() {
    for op in StreamOp::ALL {
        for bytes_per_array in [8, 4096, 3 * MIB / 2 + 77] {
            let workload =
                StreamWorkload { bytes_per_array, ..workload(op, Sampling::Repetitions { count: 5 }) };
            let threads = workload.placement.cpus.len() as u64;
            let bytes = bytes_per_array / 8 * 8 * u64::from(op.arrays()) * threads;
            let samples = checked(&workload).samples;
            assert_eq!(samples.iter().map(|sample| sample.bytes).collect::<Vec<_>>(), [bytes; 5], "{op}");
        }
    }
}

#[test]
fn huge_pages_are_counted_but_not_overstated() {
    for pages in [Pages::Base, Pages::Transparent] {
        let workload = StreamWorkload { pages, bytes_per_array: 5 * MIB, ..workload(StreamOp::Add, WINDOW) };
        let huge = checked(&workload).residency.huge_bytes;
        let all = 3 * workload.bytes_per_array * workload.placement.cpus.len() as u64;
        assert!(huge <= if pages == Pages::Base { 0 } else { all }, "{huge} of {all} on {pages:?} pages");
    }
}

#[test]
fn missing_memory_is_reported_before_allocation() {
    for bytes_per_array in [1 << 50, u64::MAX - 5, u64::MAX] {
        match run(&StreamWorkload { bytes_per_array, ..workload(StreamOp::Triad, WINDOW) }) {
            Err(ProbeError::NoMemory { node: short, needed_bytes, free_bytes }) => {
                assert_eq!(short, node());
                assert!(needed_bytes >= 1 << 50 && free_bytes > 0 && free_bytes < 1 << 50);
            }
            other => unreachable!("{other:?}"),
        }
    }
}

#[test]
fn rejects_unavailable_resources() {
    let good = workload(StreamOp::Copy, WINDOW);
    let mut bad: Vec<StreamWorkload> = [0, 1, 7]
        .map(|bytes_per_array| StreamWorkload { bytes_per_array, ..good.clone() })
        .into_iter()
        .chain([StreamWorkload { memory: NodeId(987), ..good.clone() }])
        .collect();
    let unavailable = [CpuSet::new(), CpuSet::one(CpuId(8190)), cpus().union(&CpuSet::one(CpuId(8190)))];
    bad.extend(unavailable.map(|cpus| StreamWorkload { placement: Placement { cpus }, ..good.clone() }));
    let nothing = [
        Sampling::Window { milliseconds: 0, slices: 1 },
        Sampling::Window { milliseconds: 10, slices: u32::MAX },
        Sampling::Repetitions { count: 0 },
        Sampling::Repetitions { count: u32::MAX },
    ];
    bad.extend(nothing.map(|sampling| StreamWorkload { sampling, ..good.clone() }));
    for workload in bad {
        let result = run(&workload);
        assert!(matches!(result, Err(ProbeError::Refused { .. })), "{workload:?} gave {result:?}");
    }
}
