//! Counts of the simulated machine follow from the bytes on its paths.

use numaio_machine::conformance;
use numaio_machine::counters::Counter;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CountedOutcome, Outcome, ProbeExt};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{
    CopyLoop, CopyWorkload, CountedTarget, CountedWorkload, Flow, Pages, Placement, Sampling, StreamLoop,
    StreamOp, StreamWorkload,
};
use numaio_sim::{shapes, Simulated};

const WINDOW: Sampling = Sampling::Window { milliseconds: 100, slices: 10 };

fn stream(memory: u32) -> CountedOutcome {
    let machine = Simulated::new(shapes::uniform(2, 4)).expect("a machine");
    let stream = StreamWorkload {
        op: StreamOp::Copy,
        stream_loop: StreamLoop::Ordinary,
        memory: NodeId(memory),
        placement: Placement { cpus: CpuSet::parse_list("0-3").expect("CPUs") },
        bytes_per_array: 32 << 20,
        pages: Pages::Transparent,
        sampling: WINDOW,
    };
    let counters = Counter::ALL.to_vec();
    machine.counted(&CountedWorkload { counters, target: CountedTarget::Stream(stream) }).expect("it runs")
}

fn at(outcome: &CountedOutcome, counter: Counter, node: Option<u32>) -> f64 {
    let found =
        outcome.counts.iter().find(|count| (count.counter, count.node) == (counter, node.map(NodeId)));
    found.and_then(|count| count.value()).unwrap_or_else(|| panic!("{counter} of {node:?}"))
}

#[test]
fn simulated_machine_passes_the_conformance_checks() {
    for shape in shapes::NAMES {
        let spec = shapes::named(shape).expect(shape);
        let first = spec.nodes[0].clone();
        let machine = Simulated::new(spec).expect(shape);
        conformance::counted(
            &machine,
            &CopyWorkload {
                flow: Flow { source: first.id, sink: first.id },
                placement: Placement { cpus: first.cpus.iter().take(2).collect() },
                copy_loop: CopyLoop::Memcpy,
                bytes_per_thread: 1 << 20,
                pages: Pages::Transparent,
                sampling: WINDOW,
            },
        );
    }
}

#[test]
fn remote_memory_shows_in_counts_of_threads_and_of_nodes() {
    let (local, remote) = (stream(0), stream(1));
    let Some(Outcome::Stream(outcome)) = remote.outcome.as_deref() else { panic!("{remote:?}") };
    let bytes: u64 = outcome.samples.iter().map(|sample| sample.bytes).sum();
    // Ordinary stores read their line first: of two counted bytes, two are loaded and one stored.
    assert!((at(&remote, Counter::NodeLoadMisses, None) * 64.0 / bytes as f64 - 1.0).abs() < 1e-6);
    assert!((at(&remote, Counter::MemoryReadBytes, Some(1)) / bytes as f64 - 1.0).abs() < 1e-6);
    assert!((at(&remote, Counter::MemoryWriteBytes, Some(1)) / bytes as f64 - 0.5).abs() < 1e-6);
    assert!(at(&local, Counter::NodeLoadMisses, None) < at(&local, Counter::NodeLoads, None) / 500.0);
    assert_eq!(at(&local, Counter::LinkBytes, Some(0)), 0.0);
    assert_eq!(at(&remote, Counter::MbmLocalBytes, Some(0)), 0.0);
    assert!(
        at(&remote, Counter::NumaOther, Some(1)) > 0.0 && at(&remote, Counter::NumaLocal, Some(1)) == 0.0
    );
}
