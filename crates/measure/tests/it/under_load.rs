//! Campaigns under load on a simulated machine.

use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::set::NodeSet;
use numaio_machine::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, DiskPath, NeighborLoad, Workload};
use numaio_measure::engine::Disk;
use numaio_measure::io::{self, IoSelection, Matrix};
use numaio_measure::{
    latency, stream, CampaignError, IoOptions, LatencyOptions, Setting, StreamOptions, UnderLoad,
};
use numaio_schema::{IoRecord, Load, MachineSource, Provenance};
use numaio_sim::{shapes, Simulated, Spec};
use std::cell::RefCell;

/// The machine of Li et al. with memory controllers that eight STREAM threads saturate, and a drive
/// on node 7 that the neighbor node 6 reaches a little slower.
fn spec() -> Spec {
    let mut spec = shapes::dl585();
    spec.links.iter_mut().for_each(|link| link.bytes_per_s = 9e9);
    for io in spec.devices.iter_mut().filter_map(|device| device.io.as_mut()) {
        io.write.nodes[6] *= 0.96;
        io.read.nodes[6] *= 0.96;
    }
    spec
}

fn machine() -> Simulated {
    Simulated::new(spec()).expect("a machine")
}

fn setting<'a>(load: &'a UnderLoad<'a>, machine: &'a Simulated, topology: &'a Topology) -> Setting<'a> {
    Setting {
        root: machine,
        probe: load,
        load: Some(load),
        topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    }
}

fn loads(texts: &[&str]) -> Vec<Load> {
    texts.iter().map(|text| text.parse().expect("a load")).collect()
}

/// Measures the drive on node 7 with four streams from every node.
fn drive(probe: &dyn Probe, machine: &Simulated, texts: &[&str]) -> IoRecord {
    let topology = discover(&machine.tree());
    let path = DiskPath {
        path: "/dev/nvme0n1".into(),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    };
    let found = topology.devices.iter().find(|device| device.has_name("nvme0n1")).expect("the drive");
    let matrix = Matrix { streams: vec![4], ..Matrix::default() };
    let options = IoOptions { what: IoSelection::Matrix(matrix), ..IoOptions::default() };
    let under_load = UnderLoad::new(probe, &topology, &loads(texts)).expect("loads");
    let setting = setting(&under_load, machine, &topology);
    let device = io::device(found, None);
    io::run(&setting, &Disk { path }, device, &options, &mut |_| ()).expect("a record")
}

/// Returns the bandwidth of a node in Gbit/s.
fn gbit_per_s(record: &IoRecord, node: u32, direction: Direction) -> f64 {
    let cell = record
        .cells
        .iter()
        .find(|cell| cell.placement().is_some_and(|place| place.1 == NodeId(node) && place.2 == direction));
    cell.and_then(|cell| cell.bytes_per_s.median()).expect("a value") * 8e-9
}

fn warns(provenance: &Provenance, rule: &str) -> bool {
    provenance.warnings.iter().any(|warning| warning.rule == rule)
}

/// Fig. 5-4 of Tan Li's dissertation: the local node is the best without load, and its neighbor of
/// the same class is under load on the local node, more so with eight threads than with four.
#[test]
fn neighbor_beats_the_loaded_local_node() {
    let machine = machine();
    let [idle, four, eight] = ["7:0", "7:4", "7:8"].map(|load| drive(&machine, &machine, &[load]));
    assert!(idle.provenance.load.is_empty(), "no threads are no load");
    for direction in [Direction::Write, Direction::Read] {
        let [idle, four, eight] = [&idle, &four, &eight]
            .map(|record| (gbit_per_s(record, 7, direction), gbit_per_s(record, 6, direction)));
        assert!(idle.0 > idle.1, "{direction:?}: local {} wins over {}", idle.0, idle.1);
        assert!(eight.1 > eight.0 * 1.2, "{direction:?}: the neighbor wins: {eight:?}");
        assert!(four.0 <= idle.0 && eight.0 < four.0 * 0.8, "{direction:?}: {idle:?} {four:?} {eight:?}");
        assert!((eight.1 / idle.1 - 1.0).abs() < 0.02, "{direction:?}: load elsewhere does not matter");
    }
    let measured = &eight.provenance.load[0];
    let moved = measured.bytes_per_s.as_ref().expect("a bandwidth").median;
    assert!(moved > 1e9 && moved < 9e9, "{moved}");
    assert!(!eight.provenance.is_fit_for_placement() && idle.provenance.is_fit_for_placement());
    assert!(warns(&eight.provenance, "load-crowded") && !warns(&four.provenance, "load-crowded"));
    assert!(warns(&four.provenance, "load-shares-cpus"), "streams of node 7 may use all its CPUs");
}

#[test]
fn loaded_campaign_is_replayed_from_a_tape() {
    let header = TapeHeader {
        tape: TAPE_SCHEMA.into(),
        numaio: String::new(),
        name: "dl585".into(),
        note: String::new(),
        recorded_at: 1,
    };
    let recording = Recording::new(machine(), header);
    let recorded = drive(&recording, &machine(), &["7:8", "6:1:7"]);
    assert_eq!(recorded.provenance.load_label().as_deref(), Some("7:8,6:1:7"));
    let tape = Tape::parse(&recording.tape().to_text()).expect("a tape");
    assert_eq!(drive(&Replay::new(tape), &machine(), &["7:8", "6:1:7"]).cells, recorded.cells);
}

/// Logs the loads of each workload.
struct Logging<'a>(&'a Simulated, RefCell<Vec<Workload>>);

impl Probe for Logging<'_> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        self.1.borrow_mut().push(workload.clone());
        self.0.run(workload)
    }
}

#[test]
fn every_workload_is_loaded_and_keeps_its_cpus_if_possible() {
    let machine = machine();
    let probe = Logging(&machine, RefCell::default());
    let topology = discover(&machine.tree());
    let under_load = UnderLoad::new(&probe, &topology, &loads(&["1:3", "1:1"])).expect("loads");
    let setting = setting(&under_load, &machine, &topology);
    let options = StreamOptions { around: NodeSet::one(NodeId(0)), ..StreamOptions::default() };
    let options = StreamOptions { scope: numaio_schema::StreamScope::Node { threads: Some(2) }, ..options };
    let record = stream::run(&setting, &options, &mut |_| ()).expect("a record");
    assert_eq!(record.provenance.load.len(), 2);
    let mut shared = 0;
    for workload in probe.1.borrow().iter() {
        let Workload::Loaded(loaded) = workload else { panic!("without load: {workload}") };
        let Workload::Stream(stream) = &*loaded.workload else { panic!("{workload}") };
        let cpus = loaded.loads.iter().map(|load| match load {
            NeighborLoad::Stream(load) => load.placement.cpus.clone(),
            NeighborLoad::Command { .. } => panic!("{workload}"),
        });
        let [first, second]: [_; 2] = cpus.collect::<Vec<_>>().try_into().expect("two loads");
        assert_eq!((first.len(), second.len()), (3, 1));
        let measuring = &stream.placement.cpus;
        if measuring.iter().all(|cpu| cpu.0 < 4 || cpu.0 > 7) {
            assert!(first.intersection(&second).is_empty(), "{workload}");
        } else {
            // Two of the four CPUs of node 1 measure: one thread of the first load shares one.
            assert_eq!(first.intersection(measuring).len(), 1, "{workload}");
            shared += 1;
        }
    }
    assert!(shared > 0 && warns(&record.provenance, "load-shares-cpus"));
}

#[test]
fn latency_grows_beside_a_load_of_the_same_memory() {
    let machine = machine();
    let topology = discover(&machine.tree());
    let median = |texts: &[&str]| {
        let under_load = UnderLoad::new(&machine, &topology, &loads(texts)).expect("loads");
        let setting = setting(&under_load, &machine, &topology);
        let options = LatencyOptions { around: NodeSet::one(NodeId(0)), ..LatencyOptions::default() };
        let record = latency::run(&setting, &options, &mut |_| ()).expect("a record");
        let cell =
            record.cells.iter().find(|cell| cell.cpu_node == NodeId(0) && cell.memory_node == NodeId(2));
        cell.and_then(|cell| cell.ns_per_load.median()).expect("a value")
    };
    let (idle, same, other) = (median(&[]), median(&["2:4"]), median(&["3:4"]));
    assert!(same > idle * 1.2, "{same} {idle}");
    assert!((other / idle - 1.0).abs() < 0.01, "{other} {idle}");
}

#[test]
fn impossible_loads_are_rejected_before_the_first_visit() {
    let machine = machine();
    let topology = discover(&machine.tree());
    let error = |text: &str| UnderLoad::new(&machine, &topology, &loads(&[text])).err();
    let nodes: NodeSet = (0..8).map(NodeId).collect();
    let unknown = |node| Some(CampaignError::UnknownNode { node: NodeId(node), nodes: nodes.clone() });
    assert_eq!(error("8:1"), unknown(8));
    assert_eq!(error("7:1:9"), unknown(9));
    assert!(matches!(error("0:4096"), Some(CampaignError::TooLittleMemory { .. })), "{:?}", error("0:4096"));
    let sparse = Simulated::new(shapes::sparse()).expect("a machine");
    let found = UnderLoad::new(&sparse, &discover(&sparse.tree()), &loads(&["9:1"])).err();
    assert_eq!(found, Some(CampaignError::NoCpus { node: NodeId(9) }));
    let command = [Load::Command { command: "stress".into() }];
    let under_load = UnderLoad::new(&machine, &topology, &command).expect("no check");
    let setting = setting(&under_load, &machine, &topology);
    let error = stream::run(&setting, &StreamOptions::default(), &mut |_| ()).expect_err("no shell");
    assert_eq!(error, CampaignError::Nothing(ProbeError::Unsupported { feature: "stress".into() }));
}
