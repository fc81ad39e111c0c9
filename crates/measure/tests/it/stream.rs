//! STREAM campaigns on scripted and simulated machines.

use crate::topology::topology;
use numaio_machine::discover::discover;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{Outcome, Probe, ProbeError, Residency, StreamOutcome, StreamSample};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::workload::{Sampling, StreamLoop, StreamOp, StreamWorkload, Workload};
use numaio_measure::{stream, CampaignError, Rule, Setting, StreamOptions};
use numaio_schema::{MachineSource, StreamRecord, StreamScope};
use numaio_sim::{shapes, Simulated};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Answers in GB/s by a function of the workload.
struct Scripted<F> {
    answer: F,
    log: RefCell<Vec<StreamWorkload>>,
}

impl<F: Fn(&StreamWorkload) -> Result<f64, ProbeError>> Scripted<F> {
    fn new(answer: F) -> Self {
        Self { answer, log: RefCell::default() }
    }

    /// Returns the visits of cells, without the trial.
    fn visits(&self) -> Vec<StreamWorkload> {
        self.log.borrow().iter().filter(|stream| !is_trial(stream)).cloned().collect()
    }
}

fn is_trial(stream: &StreamWorkload) -> bool {
    matches!(stream.sampling, Sampling::Window { slices: 3, .. })
}

impl<F: Fn(&StreamWorkload) -> Result<f64, ProbeError>> Probe for Scripted<F> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Stream(stream) = workload else {
            return Err(ProbeError::Unsupported { feature: workload.to_string() });
        };
        let visit = self.log.borrow().len();
        self.log.borrow_mut().push(stream.clone());
        // Non-repeating noise of 0.1 percent.
        let gb_per_s = (self.answer)(stream)? * (1.0 + [0.0, 0.001, -0.001, 0.0005][visit % 4]);
        let sample = |share: f64| StreamSample { bytes: (gb_per_s * share * 1e7) as u64, ns: 10_000_000 };
        Ok(Outcome::Stream(StreamOutcome {
            samples: [0.97, 1.0, 1.03].map(sample).to_vec(),
            elapsed_ns: 100_000_000,
            start_skew_ns: 0,
            residency: Residency { pages_checked: Some(100), huge_bytes: 1, ..Residency::default() },
        }))
    }
}

fn run_with(
    topology: &Topology,
    probe: &dyn Probe,
    options: &StreamOptions,
) -> Result<StreamRecord, CampaignError> {
    let setting = Setting {
        root: &Tree::new(),
        probe,
        load: None,
        topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    stream::run(&setting, options, &mut |_| {})
}

fn run_on(probe: &dyn Probe, options: &StreamOptions) -> Result<StreamRecord, CampaignError> {
    run_with(&topology(), probe, options)
}

fn around(nodes: &str) -> StreamOptions {
    StreamOptions { around: NodeSet::parse_list(nodes).expect("a list"), ..StreamOptions::default() }
}

fn pairs(record: &StreamRecord) -> Vec<(u32, u32)> {
    record.cells.iter().map(|cell| (cell.cpu_node.0, cell.memory_node.0)).collect()
}

#[test]
fn every_pair_of_cpu_and_memory_node_is_a_cell() {
    let machine = Scripted::new(|_| Ok(10.0));
    let record = run_on(&machine, &StreamOptions::default()).expect("a record");
    let all: Vec<(u32, u32)> = (0..4).flat_map(|cpu| (0..4).map(move |memory| (cpu, memory))).collect();
    assert_eq!(pairs(&record), all);
    assert!(record.provenance.complete && record.provenance.warnings.is_empty(), "{:?}", record.provenance);
    assert!(record.cells.iter().all(|cell| cell.op == StreamOp::Copy && cell.placement.cpus.len() == 2));
    let one = &record.cells[1];
    assert_eq!(one.placement.cpus.to_string(), "0-1", "the threads of a cell are its CPU node's");
    let (best, median) = (one.bytes_per_s.largest(), one.bytes_per_s.median());
    assert!(best.zip(median).is_some_and(|(best, median)| (best / median - 1.03).abs() < 0.003));
}

#[test]
fn target_selects_its_row_and_column() {
    let machine = Scripted::new(|_| Ok(10.0));
    let record = run_on(&machine, &around("2")).expect("a record");
    assert_eq!(pairs(&record), [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (3, 2)]);
    let trials = machine.log.borrow();
    let mut trials = trials.iter().filter(|stream| is_trial(stream));
    assert!(trials.all(|stream| stream.memory == NodeId(0)), "where the whole matrix tries its loops");
}

#[test]
fn nodes_without_cpus_or_memory_have_partial_rows() {
    let machine = Scripted::new(|_| Ok(10.0));
    let mut topology = topology();
    topology.nodes[3].cpus = CpuSet::new();
    topology.nodes[0].memory = None;
    topology.nodes[1].memory_allowed = false;
    let record = run_with(&topology, &machine, &around("0,3")).expect("a record");
    assert_eq!(pairs(&record), [(0, 2), (0, 3), (1, 3), (2, 3)]);
    assert_eq!(
        run_with(&topology, &machine, &around("9")).expect_err("none").to_string().find("no node 9"),
        Some(9)
    );
}

#[test]
fn arrays_are_four_times_the_last_level_cache() {
    let bytes = |scope: StreamScope, cache: u64| {
        let mut topology = topology();
        topology.caches.iter_mut().for_each(|its| its.bytes = cache);
        let machine = Scripted::new(|_| Ok(10.0));
        let record =
            run_with(&topology, &machine, &StreamOptions { scope, ..around("0") }).expect("a record");
        assert!(machine.visits().iter().all(|stream| record.method.bytes_per_array.contains(&(
            NodeId(stream.placement.cpus.first().expect("a CPU").0 / 2),
            stream.bytes_per_array
        ))));
        machine.visits()[0].bytes_per_array >> 20
    };
    let node = |threads| StreamScope::Node { threads };
    assert_eq!((bytes(node(None), 8 << 20), bytes(node(Some(1)), 8 << 20)), (16, 32));
    assert_eq!((bytes(StreamScope::Core, 8 << 20), bytes(StreamScope::Core, 32 << 20)), (32, 128));
    assert_eq!(bytes(node(None), 512 << 10), 4, "one million doubles in all, in steps of 2 MiB");
}

#[test]
fn each_core_measures_every_node() {
    let machine = Scripted::new(|_| Ok(5.0));
    let options = StreamOptions { scope: StreamScope::Core, ..StreamOptions::default() };
    let record = run_on(&machine, &options).expect("a record");
    assert_eq!((record.cells.len(), record.method.scope), (32, StreamScope::Core));
    assert!(record.cells.iter().all(|cell| {
        cell.placement.cpus.len() == 1
            && cell.placement.cpus.first().map(|cpu| cpu.0 / 2) == Some(cell.cpu_node.0)
    }));
}

#[test]
fn hardware_threads_run_on_request() {
    let mut topology = topology();
    for cpu in &mut topology.cpus {
        let first = cpu.id.0 / 2 * 2;
        cpu.siblings = CpuSet::from_iter([CpuId(first), CpuId(first + 1)]);
    }
    let threads = |scope| {
        let machine = Scripted::new(|_| Ok(10.0));
        let options = StreamOptions { scope, ..StreamOptions::default() };
        let record = run_with(&topology, &machine, &options).expect("a record");
        assert_eq!((record.cells.len(), record.method.scope), (16, scope));
        let threads: BTreeSet<usize> = record.cells.iter().map(|cell| cell.placement.cpus.len()).collect();
        (threads, record.method.bytes_per_array[0].1 >> 20)
    };
    let (cores, all) = (StreamScope::Node { threads: None }, StreamScope::HardwareThreads);
    assert_eq!((threads(cores), threads(all)), ((BTreeSet::from([1]), 32), (BTreeSet::from([2]), 16)));
}

#[test]
fn core_unlike_others_of_its_node_is_rechecked() {
    let machine =
        Scripted::new(|stream| Ok(if stream.placement.cpus.contains(CpuId(3)) { 3.0 } else { 5.0 }));
    let mut topology = topology();
    // A third core on node 1, for a majority.
    topology.nodes[1].cpus = CpuSet::parse_list("2-4").expect("a list");
    topology.nodes[2].cpus = CpuSet::parse_list("5").expect("a list");
    let options = StreamOptions { scope: StreamScope::Core, ..around("1") };
    let record = run_with(&topology, &machine, &options).expect("a record");
    let visits = |cpu: u32| {
        let of_cpu = |cell: &&numaio_schema::StreamCell| {
            cell.placement.cpus == CpuSet::one(CpuId(cpu)) && cell.memory_node == NodeId(1)
        };
        record.cells.iter().find(of_cpu).map(|cell| cell.bytes_per_s.visits.len())
    };
    assert_eq!((visits(2), visits(3), visits(4)), (Some(2), Some(5), Some(2)));
}

#[test]
fn each_operation_uses_its_fastest_loop() {
    let machine = Scripted::new(|stream| match (stream.op, stream.stream_loop) {
        (StreamOp::Triad, StreamLoop::Ordinary) => Ok(12.0),
        (_, StreamLoop::Avx2) => Ok(10.0),
        _ => Ok(8.0),
    });
    let ops = vec![StreamOp::Copy, StreamOp::Triad];
    let record = run_on(&machine, &StreamOptions { ops, ..around("0") }).expect("a record");
    let wanted = [(StreamOp::Copy, StreamLoop::Avx2), (StreamOp::Triad, StreamLoop::Ordinary)];
    assert_eq!((record.method.loops.as_slice(), record.method.trials.len()), (&wanted[..], 4));
    assert!(machine.visits().iter().all(|stream| wanted.contains(&(stream.op, stream.stream_loop))));
    let chosen = StreamOptions { stream_loop: Some(StreamLoop::Avx2), ..around("0") };
    let record = run_on(&machine, &chosen).expect("a record");
    assert!(record.method.trials.is_empty() && record.method.loops == [(StreamOp::Copy, StreamLoop::Avx2)]);
}

#[test]
fn node_without_memory_is_reported() {
    let machine = Scripted::new(|_| Ok(10.0));
    let mut topology = topology();
    if let Some(memory) = &mut topology.nodes[3].memory {
        memory.free_bytes = 32 << 20;
    }
    let record = run_with(&topology, &machine, &StreamOptions::default()).expect("a record");
    assert!(!record.provenance.complete);
    for cell in &record.cells {
        let why = cell.bytes_per_s.failure.as_deref().unwrap_or_default();
        assert_eq!(why.contains("node 3 has 30198988 bytes free"), cell.memory_node == NodeId(3), "{why}");
    }
    assert!(machine.visits().iter().all(|stream| stream.memory != NodeId(3)));
    for node in &mut topology.nodes {
        node.memory.iter_mut().for_each(|memory| memory.free_bytes = 1 << 20);
    }
    let error = run_with(&topology, &machine, &around("1")).expect_err("no room").to_string();
    assert!(error.contains("the buffers need 67108864"), "{error}");
}

#[test]
fn node_with_too_few_cpus_is_left_out() {
    let machine = Scripted::new(|_| Ok(10.0));
    let mut topology = topology();
    topology.nodes[3].cpus = CpuSet::one(CpuId(7));
    let options = |threads| StreamOptions {
        scope: StreamScope::Node { threads: Some(threads) },
        ..StreamOptions::default()
    };
    let record = run_with(&topology, &machine, &options(2)).expect("a record");
    assert!(!record.provenance.complete && pairs(&record).iter().all(|(cpu, _)| *cpu != 3));
    assert_eq!(record.provenance.warnings[0].rule, "node-left-out");
    let error = run_with(&topology, &machine, &options(3)).expect_err("nowhere").to_string();
    assert_eq!(error, "node 0 has 2 CPUs that this process may use, fewer than 3 threads");
}

#[test]
fn time_limit_completes_rows_one_by_one() {
    let machine = Scripted::new(|_| Ok(10.0));
    let rule = Rule { time_limit_s: 1.4, ..Rule::default() };
    let record = run_on(&machine, &StreamOptions { rule, ..StreamOptions::default() }).expect("a record");
    let reached = |cpu: u32| {
        let cells = record.cells.iter().filter(|cell| cell.cpu_node == NodeId(cpu));
        cells.filter(|cell| cell.bytes_per_s.summary.is_some()).count()
    };
    assert_eq!((reached(0), reached(1) >= 3), (4, true), "8 visits after 6 runs of the trial");
    assert!(!record.provenance.complete);
}

/// The stopping rule recovers the simulated bandwidths from noise.
#[test]
fn results_match_the_simulated_machine() {
    let machine = Simulated::new(shapes::dl585()).expect("a machine");
    let topology = discover(&machine.tree());
    let setting = Setting {
        root: &machine,
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let record = stream::run(&setting, &StreamOptions::default(), &mut |_| {}).expect("a record");
    assert_eq!(record.cells.len(), 64);
    for cell in &record.cells {
        let stream = StreamWorkload {
            op: cell.op,
            stream_loop: record.method.loops[0].1,
            memory: cell.memory_node,
            placement: cell.placement.clone(),
            bytes_per_array: record.method.bytes_per_array[0].1,
            pages: record.method.pages,
            sampling: Sampling::Window { milliseconds: 100, slices: 5 },
        };
        let truth = machine.stream_truth(&stream).expect("a figure");
        let found = cell.bytes_per_s.median().expect("a figure");
        assert!(
            (found / truth - 1.0).abs() < 0.04,
            "{} {}: {found} {truth}",
            cell.cpu_node,
            cell.memory_node
        );
    }
    assert!(record.provenance.complete, "{:?}", record.provenance.warnings);
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(StreamRecord::from_json(&json).expect("a record"), record);
}
