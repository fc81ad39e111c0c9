//! Copies on the test machine, which needs just one node with memory.

use crate::allowed::{cpus, node};
use numaio_linux::{copy, Kernel};
use numaio_machine::conformance;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{CopyOutcome, ProbeError, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Placement, Sampling};
use std::time::Instant;

const MIB: u64 = 1 << 20;

fn workload(sampling: Sampling) -> CopyWorkload {
    CopyWorkload {
        flow: Flow { source: node(), sink: node() },
        placement: Placement { cpus: cpus() },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: MIB,
        pages: Pages::Base,
        sampling,
    }
}

const WINDOW: Sampling = Sampling::Window { milliseconds: 40, slices: 10 };

fn run(workload: &CopyWorkload) -> Result<CopyOutcome, ProbeError> {
    let kernel = Kernel::new().expect("a kernel");
    kernel.copy(workload)
}

/// Checks the invariants of every outcome.
fn check(workload: &CopyWorkload, outcome: &CopyOutcome, wall_ns: u64) {
    let sampled: u64 = outcome.samples.iter().map(|sample| sample.ns).sum();
    assert!(outcome.samples.iter().all(|sample| sample.ns > 0), "{outcome:?}");
    assert!(outcome.samples.iter().any(|sample| sample.bytes_copied > 0), "{outcome:?}");
    assert!(sampled <= outcome.elapsed_ns && outcome.elapsed_ns <= wall_ns, "{outcome:?}");
    let pages = outcome.residency.pages_checked.unwrap_or(0);
    assert_eq!(outcome.residency.pages_misplaced, 0, "{outcome:?}");
    assert_eq!(outcome.residency.misplaced_on, None);
    if workload.pages == Pages::Base && pages > 0 {
        let threads = workload.placement.cpus.len() as u64;
        let of_a_buffer = workload.bytes_per_thread.div_ceil(numaio_linux::memory::page_bytes() as u64);
        // Before and after, source and sink; an unaligned sink may touch one more page.
        let looks = threads * 2;
        assert!((looks * 2 * of_a_buffer..=looks * (2 * of_a_buffer + 1)).contains(&pages), "{pages} pages");
    }
}

fn checked(workload: &CopyWorkload) -> CopyOutcome {
    let began = Instant::now();
    let outcome = run(workload).expect("a copy");
    check(workload, &outcome, began.elapsed().as_nanos() as u64);
    outcome
}

#[test]
fn kernel_conforms_to_the_probe_contract() {
    let kernel = Kernel::new().expect("a kernel");
    for copy_loop in CopyLoop::ALL.into_iter().filter(|copy_loop| copy::available(*copy_loop)) {
        conformance::probe(&kernel, &CopyWorkload { copy_loop, ..workload(WINDOW) });
    }
}

#[test]
fn every_loop_fills_all_slices_of_a_window() {
    for copy_loop in CopyLoop::ALL {
        let workload = CopyWorkload { copy_loop, ..workload(WINDOW) };
        if !copy::available(copy_loop) {
            assert!(matches!(run(&workload), Err(ProbeError::Unsupported { .. })), "{copy_loop}");
            continue;
        }
        let outcome = checked(&workload);
        let library = (copy_loop == CopyLoop::Memcpy).then(copy::c_library);
        assert_eq!(outcome.c_library, library, "{copy_loop}");
        assert_eq!(outcome.samples.len(), 10, "{copy_loop}");
        assert!(outcome.samples.iter().all(|sample| sample.ns == 4_000_000), "{copy_loop}");
    }
}

#[test]
fn repetitions_are_counted_exactly() {
    let workload =
        CopyWorkload { bytes_per_thread: 3 * MIB / 2 + 77, ..workload(Sampling::Repetitions { count: 7 }) };
    let outcome = checked(&workload);
    let bytes = workload.bytes_per_thread * workload.placement.cpus.len() as u64;
    assert_eq!(outcome.samples.iter().map(|sample| sample.bytes_copied).collect::<Vec<_>>(), [bytes; 7]);
}

#[test]
fn huge_pages_are_counted_but_not_overstated() {
    for bytes_per_thread in [1, 64, MIB, 3 * MIB] {
        for pages in [Pages::Base, Pages::Transparent] {
            let workload = CopyWorkload { pages, bytes_per_thread, ..workload(WINDOW) };
            let huge = checked(&workload).residency.huge_bytes;
            let all = 2 * bytes_per_thread * workload.placement.cpus.len() as u64;
            assert!(huge <= if pages == Pages::Base { 0 } else { all }, "{huge} of {all} on {pages:?} pages");
        }
    }
    let outcome = run(&CopyWorkload { pages: Pages::Huge, ..workload(WINDOW) });
    match outcome {
        Ok(outcome) => assert!(outcome.residency.huge_bytes > 0),
        Err(ProbeError::Refused { call: what, .. }) => assert!(what.contains("huge pages"), "{what}"),
        Err(error) => unreachable!("{error:?}"),
    }
}

#[test]
fn missing_memory_is_reported_before_allocation() {
    for pages in [Pages::Base, Pages::Transparent] {
        for bytes_per_thread in [1 << 50, u64::MAX - 5, u64::MAX] {
            let error = run(&CopyWorkload { pages, bytes_per_thread, ..workload(WINDOW) });
            let Err(ProbeError::NoMemory { node: short, needed_bytes, free_bytes }) = error else {
                unreachable!("{error:?}")
            };
            assert_eq!(short, node());
            assert!(needed_bytes >= 1 << 50 && free_bytes > 0 && free_bytes < 1 << 50);
        }
    }
}

#[test]
fn rejects_unavailable_resources() {
    let good = workload(WINDOW);
    let absent = NodeId(987);
    let nowhere = [Flow { source: absent, sink: node() }, Flow { source: node(), sink: absent }];
    let unavailable = ["8190", "0,8190", "65536", ""].map(|list| CpuSet::parse_list(list).expect("a list"));
    let nothing = [
        Sampling::Window { milliseconds: 0, slices: 1 },
        Sampling::Window { milliseconds: 10, slices: 0 },
        Sampling::Window { milliseconds: 10, slices: u32::MAX },
        Sampling::Repetitions { count: 0 },
        Sampling::Repetitions { count: u32::MAX },
    ];
    let mut bad = vec![CopyWorkload { bytes_per_thread: 0, ..good.clone() }];
    bad.extend(nowhere.map(|flow| CopyWorkload { flow, ..good.clone() }));
    bad.extend(unavailable.map(|cpus| CopyWorkload { placement: Placement { cpus }, ..good.clone() }));
    bad.extend(nothing.map(|sampling| CopyWorkload { sampling, ..good.clone() }));
    for workload in bad {
        let result = run(&workload);
        assert!(matches!(result, Err(ProbeError::Refused { .. })), "{workload:?} gave {result:?}");
    }
}

#[test]
fn error_names_the_unavailable_cpu() {
    let placement = Placement { cpus: cpus().union(&CpuSet::one(CpuId(8190))) };
    let error = run(&CopyWorkload { placement, ..workload(WINDOW) }).expect_err("no such CPU").to_string();
    assert!(error.contains("CPU 8190"), "{error}");
}
