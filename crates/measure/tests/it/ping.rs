//! Ping-pong campaigns on simulated machines and tapes.

use numaio_machine::discover::discover;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{Outcome, PeerOutcome, PingOutcome, Probe, ProbeError, Residency};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::tape::{Recording, Replay, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{PingPart, PingWorkload, Rail, Workload};
use numaio_measure::engine::perftest::Op;
use numaio_measure::engine::{Perftest, RemoteEnd, RemotePlacement};
use numaio_measure::io::Placements;
use numaio_measure::net::End;
use numaio_measure::{ping, CampaignError, PingEngine, PingOptions, Rule, Setting};
use numaio_schema::{IoDevice, IoRemoteEnd, MachineSource, PingRail, PingRecord, Striping};
use numaio_sim::{shapes, Simulated};

fn device(name: &str, node: u32) -> IoDevice {
    IoDevice {
        name: name.into(),
        model: String::new(),
        pci: None,
        node: Some(NodeId(node)),
        reached_via: Some("dtn2".into()),
        irqs: Vec::new(),
    }
}

/// A peer with two placements.
fn far() -> RemoteEnd {
    let place = |node| RemotePlacement {
        cpu_node: NodeId(node),
        cpus: CpuSet::one(CpuId(node)),
        memory: NodeId(node),
    };
    RemoteEnd { peer: "dtn2".into(), host: "192.0.2.2".into(), places: vec![place(0), place(1)] }
}

fn options(ends: &[End], sizes: &[u64]) -> PingOptions {
    PingOptions {
        ends: ends.to_vec(),
        places: Placements::Local(NodeSet::new()),
        home: NodeId(7),
        own_place: IoRemoteEnd {
            cpu_nodes: NodeSet::one(NodeId(0)),
            memory: Some(NodeId(0)),
            cpu_ns_per_byte: None,
        },
        sizes: sizes.to_vec(),
        rails: Vec::new(),
        window_ms: 50,
        slices: 5,
        rule: Rule::default(),
    }
}

fn run_on(
    probe: &dyn Probe,
    topology: &Topology,
    engine: &PingEngine,
    options: &PingOptions,
) -> Result<PingRecord, CampaignError> {
    let root = numaio_machine::tree::Tree::new();
    let source = MachineSource::Simulated;
    let setting = Setting { root: &root, probe, load: None, topology, source, now: 1, stop: &|| false };
    ping::run(&setting, engine, (device("eth0", 7), None), options, &mut |_| {})
}

fn tcp() -> PingEngine {
    PingEngine::Tcp(far())
}

/// Twelve cores, of which each node's threads see another latency to the adapter on node 7.
fn simulated() -> Simulated {
    Simulated::new(shapes::dl585()).expect("a machine")
}

/// The machine with a second adapter on node 0, of a third of the bandwidth.
fn with_two_adapters() -> Simulated {
    let mut spec = shapes::dl585();
    let first = spec.devices.iter().find(|device| device.names == ["eth0"]).expect("an adapter");
    let mut second = first.clone();
    second.names = vec!["eth1".into()];
    second.node = Some(NodeId(0));
    second.under = None;
    second.pci = "0000:51:00.0".parse().expect("an address");
    let io = second.io.as_mut().expect("rates");
    for rates in [&mut io.write, &mut io.read] {
        rates.nodes.iter_mut().for_each(|rate| *rate /= 3.0);
        rates.stream = rates.stream.map(|rate| rate / 3.0);
    }
    spec.devices.push(second);
    Simulated::new(spec).expect("a machine")
}

fn rails() -> Vec<PingRail> {
    let rail = |octet: u8| Rail { local: [192, 0, octet, 1].into(), remote: [192, 0, octet, 2].into() };
    vec![
        PingRail { rail: rail(2), device: device("eth0", 7) },
        PingRail { rail: rail(3), device: device("eth1", 0) },
    ]
}

/// The stopping rule recovers the simulated latencies from noise, by node and size.
#[test]
fn results_match_the_simulated_machine() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let record =
        run_on(&machine, &topology, &tcp(), &options(&[End::Local], &[1, 1 << 20])).expect("a record");
    assert_eq!((record.cells.len(), record.provenance.complete), (16, true));
    for cell in &record.cells {
        let workload = PingWorkload {
            peer: "dtn2".into(),
            cpus: topology.usable_cpus(cell.cpu_node),
            memory: cell.memory_node,
            peer_placement: None,
            parts: vec![PingPart { bytes: cell.message_bytes, rail: None }],
            milliseconds: 50,
            slices: 5,
        };
        let truth = machine.ping_truth(&workload).expect("a figure") / 2.0;
        let found = cell.latency_ns.median().expect("a figure");
        assert!((found / truth - 1.0).abs() < 0.04, "{} {found} {truth}", cell.cpu_node);
        let (p99, min) =
            (cell.p99_ns.as_ref().expect("a percentile").median, cell.min_ns.expect("a minimum"));
        assert!(min <= found && found <= p99, "{min} {found} {p99}");
    }
}

#[test]
fn each_end_or_both_together_are_varied() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let cells = |ends: &[End]| {
        let record = run_on(&machine, &topology, &tcp(), &options(ends, &[64])).expect("a record");
        let nodes = |cell: &numaio_schema::PingCell| (cell.cpu_node.0, cell.remote.cpu_nodes.to_string());
        record.cells.iter().map(nodes).collect::<Vec<(u32, String)>>()
    };
    assert_eq!(cells(&[End::Local]).len(), 8);
    assert_eq!(cells(&[End::Remote]), [(7, "0".to_owned()), (7, "1".to_owned())]);
    assert_eq!(cells(&[End::Local, End::Remote]).len(), 10);
    let product = cells(&[End::Both]);
    assert!(product.len() == 16 && product.contains(&(3, "1".to_owned())), "{product:?}");
}

/// Figure 3 of Moreaud and Goglin: striping by measured shares beats even striping, and both rails
/// beat the better one where bandwidth counts; for small messages there is nothing to gain.
#[test]
fn measured_striping_beats_even_striping_and_the_best_rail() {
    let machine = with_two_adapters();
    let topology = discover(&machine.tree());
    let options = PingOptions {
        places: Placements::Local(NodeSet::one(NodeId(7))),
        rails: rails(),
        ..options(&[End::Local], &[1, 8 << 20])
    };
    let record = run_on(&machine, &topology, &tcp(), &options).expect("a record");
    assert_eq!(record.cells.len(), 8);
    let of = |bytes: u64, striping| {
        let wanted =
            |cell: &&numaio_schema::PingCell| cell.message_bytes == bytes && cell.striping == Some(striping);
        record.cells.iter().find(wanted).expect("a cell")
    };
    let ns = |striping| of(8 << 20, striping).latency_ns.median().expect("a figure");
    let (fast, slow) = (ns(Striping::Single(0)), ns(Striping::Single(1)));
    assert!(slow / fast > 2.9, "{fast} {slow}");
    let gain = fast / ns(Striping::Measured);
    assert!((1.25..1.4).contains(&gain), "three quarters on the fast rail: {gain}");
    assert!(ns(Striping::Even) > fast, "the slow rail carries half");
    let parts = &of(8 << 20, Striping::Measured).parts;
    assert!((parts[0] as f64 / parts[1] as f64 - 3.0).abs() < 0.2, "{parts:?}");
    assert_eq!(of(1, Striping::Measured).parts, [1, 0]);
}

#[test]
fn recorded_campaign_replays_from_its_tape() {
    let machine = with_two_adapters();
    let topology = discover(&machine.tree());
    let header = TapeHeader {
        tape: TAPE_SCHEMA.to_owned(),
        numaio: "0".into(),
        name: "simulated".into(),
        note: String::new(),
        recorded_at: 1,
    };
    let recording = Recording::new(machine, header);
    let mut options = options(&[End::Local], &[4096]);
    options.rails = rails();
    let measured = run_on(&recording, &topology, &tcp(), &options).expect("a record");
    let text = recording.tape().to_text();
    let tape = numaio_machine::tape::Tape::parse_bytes(text.as_bytes()).expect("a tape");
    let replayed = run_on(&Replay::new(tape), &topology, &tcp(), &options).expect("the same record");
    let medians = |record: &PingRecord| {
        record.cells.iter().map(|cell| (cell.parts.clone(), cell.latency_ns.median())).collect::<Vec<_>>()
    };
    assert_eq!(medians(&replayed), medians(&measured));
}

/// Answers every message with the same outcome.
struct Scripted(Result<Outcome, ProbeError>);

impl Probe for Scripted {
    fn run(&self, _: &Workload) -> Result<Outcome, ProbeError> {
        self.0.clone()
    }
}

#[test]
fn misplaced_pages_of_the_peer_and_interrupted_visits_do_not_count() {
    let topology = discover(&simulated().tree());
    let misplaced = Residency { pages_checked: Some(10), pages_misplaced: 9, ..Residency::default() };
    let there = PeerOutcome { cpus: CpuSet::new(), memory: NodeId(0), cpu_ns: 0, residency: misplaced };
    let own = Residency { pages_checked: Some(10), ..Residency::default() };
    let good =
        PingOutcome { elapsed_ns: 1_000_000, residency: own, ..PingOutcome::of_slices(&[vec![200, 400]]) };
    let reason = |outcome: PingOutcome| {
        let probe = Scripted(Ok(Outcome::Ping(outcome)));
        let rule = Rule { time_limit_s: 0.1, ..Rule::default() };
        let options = PingOptions { rule, ..options(&[End::Local], &[1]) };
        run_on(&probe, &topology, &tcp(), &options).err().map(|error| error.to_string())
    };
    assert_eq!(reason(good.clone()), None);
    let why = reason(PingOutcome { peer: Some(there), ..good.clone() }).expect("a reason");
    assert!(why.contains("9 of 20 pages"), "{why}");
    let cut = PingOutcome { interrupted: Some("dtn2: the connection was closed".into()), ..good };
    let why = reason(cut).expect("a reason");
    assert!(why.contains("dtn2: the connection was closed"), "{why}");
}

#[test]
fn unusable_nodes_and_missing_programs_are_reported() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let nowhere =
        PingOptions { places: Placements::Local(NodeSet::one(NodeId(900))), ..options(&[End::Local], &[1]) };
    let error = run_on(&machine, &topology, &tcp(), &nowhere).expect_err("no such node");
    assert!(matches!(error, CampaignError::UnknownNode { .. }), "{error}");
    let perftest = PingEngine::Perftest(Perftest {
        far: far(),
        op: Op::Write,
        devices: ["mlx5_0".into(), "mlx5_0".into()],
        gids: [None, None],
    });
    let missing = Scripted(Err(ProbeError::Unsupported { feature: "ib_write_bw".into() }));
    let error =
        run_on(&missing, &topology, &perftest, &options(&[End::Local], &[1])).expect_err("no program");
    assert!(matches!(error, CampaignError::NoProgram { .. }), "{error}");
}
