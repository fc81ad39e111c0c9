//! Campaigns of reads of a register on simulated machines and tapes.

use numaio_machine::devices::{MmioRegister, PciAddress, RegisterChoice};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{MmioOutcome, Outcome, Probe, ProbeError};
use numaio_machine::set::NodeSet;
use numaio_machine::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{MmioWorkload, Workload};
use numaio_measure::{mmio, CampaignError, MmioOptions, Rule, Setting, UnderLoad};
use numaio_schema::{IoDevice, Load, MachineSource, MmioRecord};
use numaio_sim::{shapes, Simulated};

fn simulated() -> Simulated {
    Simulated::new(shapes::dl585()).expect("a machine")
}

/// The adapter on node 7.
fn options() -> MmioOptions {
    let devices = shapes::dl585().devices;
    let eth0 = devices.iter().find(|device| device.names == ["eth0"]).expect("an adapter");
    let register = MmioRegister { pci: eth0.pci, bar: 0, offset: 0 };
    MmioOptions {
        register: (register, RegisterChoice::Prefetchable),
        cpu_nodes: NodeSet::new(),
        reads: 995,
        rule: Rule::default(),
    }
}

fn run_on(
    probe: &dyn Probe,
    topology: &Topology,
    options: &MmioOptions,
) -> Result<MmioRecord, CampaignError> {
    let root = numaio_machine::tree::Tree::new();
    let source = MachineSource::Simulated;
    let setting = Setting { root: &root, probe, load: None, topology, source, now: 1, stop: &|| false };
    let device = IoDevice {
        name: "eth0".into(),
        model: String::new(),
        pci: Some(options.register.0.pci.to_string()),
        node: Some(NodeId(7)),
        reached_via: None,
        irqs: Vec::new(),
    };
    mmio::run(&setting, device, options, &mut |_| {})
}

/// The clock is subtracted, and the noise does not hide the distance of the nodes.
#[test]
fn results_match_the_simulated_machine() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let record = run_on(&machine, &topology, &options()).expect("a record");
    assert_eq!((record.cells.len(), record.provenance.complete, record.method.reads), (8, true, 1000));
    let rules: Vec<&str> = record.provenance.warnings.iter().map(|warning| warning.rule.as_str()).collect();
    assert!(!rules.contains(&"residency-unchecked"), "a register has no pages: {rules:?}");
    for cell in &record.cells {
        let register = options().register.0;
        let workload = MmioWorkload { register, cpu: cell.cpu, reads: 1, slices: 1 };
        let truth = machine.mmio_truth(&workload).expect("a time");
        let found = cell.ns.median().expect("a median");
        assert!((found / truth - 1.0).abs() < 0.04, "{}: {found} {truth}", cell.cpu_node);
        assert!(topology.usable_cpus(cell.cpu_node).contains(cell.cpu), "{cell:?}");
        let (p99, min) = (cell.p99_ns.as_ref().expect("a percentile"), cell.min_ns.expect("a minimum"));
        assert!(min <= found && found <= p99.median, "{cell:?}");
        let is_local = cell.cpu_node == NodeId(7);
        assert_eq!(is_local, record.factor(cell) == Some(1.0), "{cell:?}");
    }
}

#[test]
fn requested_nodes_are_measured_or_refused() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let with = |nodes: &[u32]| {
        let cpu_nodes = nodes.iter().map(|node| NodeId(*node)).collect();
        run_on(&machine, &topology, &MmioOptions { cpu_nodes, ..options() })
    };
    let record = with(&[0, 3]).expect("a record");
    let nodes: Vec<u32> = record.cells.iter().map(|cell| cell.cpu_node.0).collect();
    assert_eq!(nodes, [0, 3]);
    assert_eq!(record.factor(&record.cells[0]), None, "the device's node was not measured");
    assert!(matches!(with(&[0, 99]), Err(CampaignError::UnknownNode { node: NodeId(99), .. })));
}

#[test]
fn recorded_campaign_replays_from_its_tape() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let header = TapeHeader {
        tape: TAPE_SCHEMA.to_owned(),
        numaio: "0".into(),
        name: "simulated".into(),
        note: String::new(),
        recorded_at: 1,
    };
    let recording = Recording::new(machine, header);
    let measured = run_on(&recording, &topology, &options()).expect("a record");
    let text = recording.tape().to_text();
    let replay = Replay::new(Tape::parse_bytes(text.as_bytes()).expect("a tape"));
    let replayed = run_on(&replay, &topology, &options()).expect("the same record");
    assert_eq!(replayed.cells, measured.cells);
    let other: PciAddress = "0000:7f:00.0".parse().expect("an address");
    let register = MmioRegister { pci: other, ..options().register.0 };
    let other = MmioOptions { register: (register, RegisterChoice::Requested), ..options() };
    let missing = run_on(&replay, &topology, &other);
    assert!(matches!(missing, Err(CampaignError::Nothing(ProbeError::NotOnTape { .. }))), "{missing:?}");
}

#[test]
fn load_runs_beside_the_reads_on_other_cpus() {
    let machine = simulated();
    let topology = discover(&machine.tree());
    let loads = [Load::Stream { cpu_node: NodeId(7), threads: 1, memory_node: NodeId(7) }];
    let under_load = UnderLoad::new(&machine, &topology, &loads).expect("a load");
    let root = numaio_machine::tree::Tree::new();
    let setting = Setting {
        root: &root,
        probe: &under_load,
        load: Some(&under_load),
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    let device = run_on(&machine, &topology, &options()).expect("a record").device;
    let record = mmio::run(&setting, device, &options(), &mut |_| {}).expect("a record");
    assert_eq!(record.provenance.load.len(), 1);
    let shared = record.provenance.warnings.iter().any(|warning| warning.rule == "load-shares-cpus");
    assert!(!shared, "{:?}", record.provenance.warnings);
}

/// Answers every run with the same outcome.
struct Scripted(MmioOutcome);

impl Probe for Scripted {
    fn run(&self, _: &Workload) -> Result<Outcome, ProbeError> {
        Ok(Outcome::Mmio(self.0.clone()))
    }
}

#[test]
fn devices_that_do_not_answer_are_a_failure() {
    let topology = discover(&simulated().tree());
    let outcome = MmioOutcome {
        all_ones: 20,
        elapsed_ns: 1_000_000,
        ..MmioOutcome::of_slices(&[vec![900; 10], vec![910; 10]], &[25])
    };
    let failed = run_on(&Scripted(outcome.clone()), &topology, &options());
    let Err(CampaignError::Nothing(why)) = failed else { panic!("{failed:?}") };
    assert!(why.to_string().starts_with("read BAR 0 of "), "{why}");
    assert!(why.to_string().contains("every read returned 0xffffffff"), "{why}");
    let answered = MmioOutcome { all_ones: 19, ..outcome };
    let record = run_on(&Scripted(answered), &topology, &options()).expect("a record");
    assert_eq!(record.cells[0].min_ns, Some(875.0), "without the clock");
}

#[test]
fn times_shorter_than_the_clock_stay_above_zero() {
    let topology = discover(&simulated().tree());
    let outcome = MmioOutcome { elapsed_ns: 1000, ..MmioOutcome::of_slices(&[vec![20; 10]], &[25]) };
    let record = run_on(&Scripted(outcome), &topology, &options()).expect("a record");
    assert_eq!(record.cells[0].ns.median(), Some(1.0));
}
