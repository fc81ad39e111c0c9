//! I/O campaigns on a scripted machine.

use crate::topology::topology;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{IoGroupOutcome, IoOutcome, IoSample, Outcome, Probe, ProbeError, Residency};
use numaio_machine::set::NodeSet;
use numaio_machine::tree::Tree;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, DiskPath, IoWorkload, Workload};
use numaio_measure::engine::{Disk, Engine, Fio, Null};
use numaio_measure::io::{self, IoSelection, Matrix, MixPart, Placements};
use numaio_measure::{CampaignError, IoOptions, Rule, Setting};
use numaio_schema::{
    Class, ClassRepresentative, ClassRule, DirectionModel, IoCell, IoDevice, IoRecord, MachineSource, Model,
    NodeBandwidth, TargetModel,
};
use std::cell::RefCell;

use Direction::{Read, Write};

/// Answers in GB/s of each group by buffer node and direction.
struct Scripted<F> {
    answer: F,
    log: RefCell<Vec<IoWorkload>>,
}

impl<F: Fn(NodeId, Direction) -> f64> Probe for Scripted<F> {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Io(io) = workload else {
            return Err(ProbeError::Unsupported { feature: "fio".into() });
        };
        let visit = self.log.borrow().len();
        self.log.borrow_mut().push(io.clone());
        let noise = 1.0 + [0.0, 0.001, -0.001, 0.0005][visit % 4];
        let group = |group: &numaio_machine::workload::StreamGroup| {
            let per_s = (self.answer)(group.memory, group.direction) * noise * f64::from(group.streams);
            let sample = |share: f64| IoSample { bytes: (per_s * share * 1e8) as u64, ns: 100_000_000 };
            IoGroupOutcome {
                samples: [0.97, 1.0, 1.03].map(sample).to_vec(),
                requests: 1,
                residency: Residency { pages_checked: Some(10), ..Residency::default() },
            }
        };
        Ok(Outcome::Io(IoOutcome {
            groups: io.groups.iter().map(group).collect(),
            elapsed_ns: 500_000_000,
            start_skew_ns: 5,
            cpu_ns: 3_000_000,
            peer: None,
            notes: vec!["a note".into()],
            interrupted: None,
        }))
    }
}

fn device() -> IoDevice {
    IoDevice {
        name: "nvme0n1".into(),
        model: String::new(),
        pci: None,
        node: Some(NodeId(0)),
        reached_via: None,
        irqs: Vec::new(),
    }
}

fn path() -> DiskPath {
    DiskPath {
        path: "/dev/nvme0n1".into(),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    }
}

fn run_on(probe: &dyn Probe, engine: &dyn Engine, options: &IoOptions) -> Result<IoRecord, CampaignError> {
    let (root, topology) = (Tree::default(), topology());
    let setting = Setting {
        root: &root,
        probe,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    };
    io::run(&setting, engine, device(), options, &mut |_| ())
}

/// 1 GB/s per stream on node 0, a tenth less per further node; reads are twice as fast.
fn by_distance(node: NodeId, direction: Direction) -> f64 {
    (1.0 - 0.1 * f64::from(node.0)) * if direction == Read { 2.0 } else { 1.0 }
}

fn measured(options: &IoOptions) -> (IoRecord, Vec<IoWorkload>) {
    let probe = Scripted { answer: by_distance, log: RefCell::default() };
    let record = run_on(&probe, &Disk { path: path() }, options).expect("a record");
    (record, probe.log.into_inner())
}

fn places(matrix: Matrix) -> IoOptions {
    IoOptions { what: IoSelection::Matrix(matrix), ..IoOptions::default() }
}

fn placements(record: &IoRecord) -> Vec<(u32, u32, Direction, u32)> {
    let one = |cell: &IoCell| {
        let (cpu, memory, direction) = cell.placement().expect("no mix");
        (cpu.0, memory.0, direction, cell.streams())
    };
    record.cells.iter().map(one).collect()
}

#[test]
fn default_is_local_buffers_on_every_node_in_both_directions() {
    let (record, log) = measured(&places(Matrix { streams: vec![1, 4], ..Matrix::default() }));
    let mut expected = Vec::new();
    for direction in [Write, Read] {
        for node in 0..4 {
            expected.extend([1, 4].map(|streams| (node, node, direction, streams)));
        }
    }
    assert_eq!(placements(&record), expected);
    assert!(record.provenance.complete, "{:?}", record.provenance.warnings);
    for cell in &record.cells {
        let (_, node, direction) = cell.placement().expect("no mix");
        let wanted = by_distance(node, direction) * 1e9 * f64::from(cell.streams());
        let found = cell.bytes_per_s.median().expect("a figure");
        assert!((found / wanted - 1.0).abs() < 0.01, "{found} and {wanted}");
        // 3 ms for the bytes of 0.3 seconds.
        let cost = 3e6 / (wanted * 0.3);
        assert!((cell.cpu_ns_per_byte.expect("known") / cost - 1.0).abs() < 0.01);
        assert!(cell.group_bytes_per_s.is_empty());
    }
    assert_eq!(record.method.notes, ["a note"], "once");
    assert_eq!(record.method.area_bytes, Some(1 << 30));
    assert!(log.iter().all(|io| io.groups[0].cpus.len() == 2 && io.depth == 16 && io.block_bytes == 131_072));
}

#[test]
fn cpu_and_memory_nodes_are_selectable() {
    let set = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect::<NodeSet>();
    let one = |places_: Placements| {
        let matrix = Matrix { places: places_, directions: vec![Read], ..Matrix::default() };
        placements(&measured(&places(matrix)).0).iter().map(|found| (found.0, found.1)).collect::<Vec<_>>()
    };
    assert_eq!(one(Placements::Local(set(&[2, 3]))), [(2, 2), (3, 3)]);
    let pairs = Placements::Pairs { cpu_nodes: set(&[0]), memory_nodes: NodeSet::new() };
    assert_eq!(one(pairs), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    let all = Placements::Pairs { cpu_nodes: NodeSet::new(), memory_nodes: NodeSet::new() };
    assert_eq!(one(all).len(), 16);
}

#[test]
fn missing_or_unusable_nodes_are_errors() {
    let run = |cpu_node: u32, memory: u32| {
        let part = MixPart {
            cpu_node: NodeId(cpu_node),
            memory: NodeId(memory),
            streams: 1,
            direction: Read,
            device: 0,
        };
        let options = IoOptions { what: IoSelection::Mixes(vec![vec![part]]), ..IoOptions::default() };
        let probe = Scripted { answer: by_distance, log: RefCell::default() };
        run_on(&probe, &Null, &options).map(|record| record.cells.len())
    };
    assert_eq!(run(0, 3), Ok(1));
    for (cpu_node, memory) in [(9, 0), (0, 9)] {
        assert!(matches!(run(cpu_node, memory), Err(CampaignError::UnknownNode { node: NodeId(9), .. })));
    }
    let none = IoOptions { what: IoSelection::Mixes(Vec::new()), ..IoOptions::default() };
    let probe = Scripted { answer: by_distance, log: RefCell::default() };
    assert_eq!(run_on(&probe, &Null, &none).map(|_| ()), Err(CampaignError::NoTarget));
}

/// Classes {0,1}, {2,3} for device write; {0}, {1,2,3} for device read.
fn model() -> Model {
    let (record, _) = measured(&IoOptions::default());
    let class = |rank: u32, nodes: &[u32], mean: f64| Class {
        rank,
        nodes: nodes.iter().copied().map(NodeId).collect(),
        min_bytes_copied_per_s: mean,
        max_bytes_copied_per_s: mean,
        mean_bytes_copied_per_s: mean,
    };
    let direction = |direction: Direction, classes: Vec<Class>| DirectionModel {
        direction,
        rule: ClassRule::Measured,
        level: 0.1,
        classes,
        nodes: (0..4)
            .map(|node| NodeBandwidth {
                node: NodeId(node),
                bytes_copied_per_s: 10.0 - f64::from(node),
                interval_bytes_copied_per_s: (0.0, 0.0),
                numa_factor: None,
                settled: true,
                modes_bytes_copied_per_s: Vec::new(),
                mode_shares: Vec::new(),
            })
            .collect(),
        missing: NodeSet::new(),
    };
    let target = TargetModel {
        target: NodeId(0),
        devices: Vec::new(),
        neighbors: NodeSet::one(NodeId(1)),
        directions: vec![
            direction(Write, vec![class(1, &[0, 1], 9.5), class(2, &[2, 3], 7.1)]),
            direction(Read, vec![class(1, &[0], 10.0), class(2, &[1, 2, 3], 8.1)]),
        ],
    };
    Model {
        schema: String::new(),
        targets: vec![target],
        record: numaio_schema::Record {
            schema: String::new(),
            provenance: record.provenance,
            method: numaio_schema::Method {
                copy_loop: numaio_machine::workload::CopyLoop::Memcpy,
                c_library: None,
                trials: Vec::new(),
                bus_bytes_per_byte: 3,
                bytes_per_thread: Vec::new(),
                pages: numaio_machine::workload::Pages::Base,
                repetitions: None,
                precision: 0.02,
                time_limit_s: 1.0,
                elapsed_s: 1.0,
                seed: 1,
                rounds: 1,
            },
            cells: Vec::new(),
        },
    }
}

#[test]
fn one_node_of_each_class_represents_the_others() {
    let all: NodeSet = (0..4).map(NodeId).collect();
    let both = [Write, Read];
    let represented = io::one_per_class(&model(), NodeId(0), &all, &both);
    let found: Vec<(Direction, u32, usize)> =
        represented.iter().map(|one| (one.direction, one.node.0, one.nodes.len())).collect();
    // The target in its own class, else the node nearest to the mean: node 3 of 8 and 7, node 2 of
    // 9, 8 and 7.
    assert_eq!(found, [(Write, 0, 2), (Write, 3, 2), (Read, 0, 1), (Read, 2, 3)]);
    let matrix = Matrix { represented: represented.clone(), ..Matrix::default() };
    let (record, log) = measured(&places(matrix));
    let nodes: Vec<(u32, Direction)> = placements(&record).iter().map(|found| (found.1, found.2)).collect();
    assert_eq!(nodes, [(0, Write), (3, Write), (0, Read), (2, Read)]);
    assert_eq!(record.method.represented, represented);
    assert!(log.iter().all(|io| io.groups[0].memory != NodeId(1)), "node 1 is stood for in both directions");
}

#[test]
fn incomplete_model_represents_no_node() {
    let all: NodeSet = (0..5).map(NodeId).collect();
    assert_eq!(io::one_per_class(&model(), NodeId(0), &all, &[Write]), Vec::<ClassRepresentative>::new());
    let some = NodeSet::one(NodeId(0));
    assert_eq!(
        io::one_per_class(&model(), NodeId(3), &some, &[Write]),
        Vec::<ClassRepresentative>::new(),
        "no target"
    );
}

#[test]
fn mix_has_total_and_per_group_results() {
    let part = |node: u32, streams: u32| MixPart {
        cpu_node: NodeId(node),
        memory: NodeId(node),
        streams,
        direction: Write,
        device: 0,
    };
    let mix = vec![part(2, 2), part(0, 1)];
    let (record, log) = measured(&IoOptions { what: IoSelection::Mixes(vec![mix]), ..IoOptions::default() });
    let [cell] = record.cells.as_slice() else { panic!("one cell") };
    let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.01;
    assert!(near(cell.bytes_per_s.median().expect("a figure"), 2.6e9));
    let parts: Vec<f64> = cell.group_bytes_per_s.iter().flatten().map(|part| part.median).collect();
    assert!(near(parts[0], 1.6e9) && near(parts[1], 1e9), "{parts:?}");
    assert_eq!(cell.cpu_nodes, [NodeId(2), NodeId(0)]);
    assert!(log.iter().all(|io| io.groups.len() == 2), "all at once");
}

#[test]
fn both_directions_at_once_are_cells_of_two_groups() {
    let matrix =
        Matrix { duplex: true, places: Placements::Local(NodeSet::one(NodeId(1))), ..Matrix::default() };
    let (record, _) = measured(&places(matrix));
    let groups: Vec<usize> = record.cells.iter().map(|cell| cell.groups.len()).collect();
    assert_eq!(groups, [1, 1, 2]);
    assert_eq!(record.cells[2].group_bytes_per_s.len(), 2);
}

#[test]
fn byte_limit_applies_to_the_campaign() {
    // A visit moves 0.3 s of 1 GB/s and a warm-up of a third of it: 0.4 GB.
    let matrix = Matrix {
        directions: vec![Write],
        places: Placements::Local(NodeSet::one(NodeId(0))),
        ..Matrix::default()
    };
    let rule = Rule { precision: 1e-9, ..Rule::default() };
    let options = IoOptions { most_bytes: Some(2_100_000_000), rule, ..places(matrix) };
    let (record, log) = measured(&options);
    assert_eq!(log.len(), 5, "a sixth visit might go beyond the limit");
    assert!(log.iter().all(|io| io.max_bytes == Some(2_100_000_000)));
    assert!(record.provenance.warnings.iter().any(|warning| warning.rule == "byte-limit"));
    assert!(!record.provenance.complete);
}

#[test]
fn warnings_distinguish_sizes_and_operations() {
    let matrix = Matrix {
        directions: vec![Write],
        places: Placements::Local(NodeSet::one(NodeId(0))),
        ..Matrix::default()
    };
    // No measurement is that precise.
    let rule = Rule { precision: 1e-9, ..Rule::default() };
    let warned = |options: IoOptions| {
        let (record, _) = measured(&IoOptions { rule, most_bytes: Some(2_100_000_000), ..options });
        let mut warnings = record.provenance.warnings.into_iter();
        warnings.find(|warning| warning.rule == "unsettled").expect("a warning").message
    };
    let alone = warned(places(matrix.clone()));
    assert_eq!(alone, "less precise than requested: device write by 1 stream on node 0");
    let sizes = warned(IoOptions { block_bytes: vec![1 << 16, 1 << 20], ..places(matrix.clone()) });
    let expected = "less precise than requested: device write by 1 stream on node 0 (64 KiB), \
                    device write by 1 stream on node 0 (1 MiB)";
    assert_eq!(sizes, expected);
    let operations = vec![Some("read".to_owned()), Some("write".to_owned())];
    let operations = warned(IoOptions { operations, ..places(matrix) });
    let expected = "less precise than requested: device write by 1 stream on node 0 (read), \
                    device write by 1 stream on node 0 (write)";
    assert_eq!(operations, expected);
}

#[test]
fn lost_device_keeps_earlier_measurements() {
    struct Vanishes(RefCell<u32>);
    impl Probe for Vanishes {
        fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
            let scripted = Scripted { answer: by_distance, log: RefCell::default() };
            let visit = self.0.replace_with(|visit| *visit + 1);
            match (visit, scripted.run(workload)?) {
                (0 | 1, outcome) => Ok(outcome),
                (2, Outcome::Io(outcome)) => {
                    Ok(Outcome::Io(IoOutcome { interrupted: Some("read at byte 7: lost".into()), ..outcome }))
                }
                _ => Err(ProbeError::Refused { call: "open".into(), reason: "No such device".into() }),
            }
        }
    }
    let record =
        run_on(&Vanishes(RefCell::new(0)), &Disk { path: path() }, &IoOptions::default()).expect("a record");
    let with = record.cells.iter().filter(|cell| cell.bytes_per_s.median().is_some()).count();
    assert_eq!((record.cells.len(), with), (8, 2));
    let aside: Vec<&str> = record
        .cells
        .iter()
        .flat_map(|cell| cell.bytes_per_s.visits.iter().filter_map(|visit| visit.excluded.as_deref()))
        .collect();
    assert_eq!(aside, ["read at byte 7: lost"]);
    assert!(record.cells.iter().any(|cell| {
        cell.bytes_per_s.failure.as_deref().is_some_and(|failure| failure.contains("No such device"))
    }));
    assert!(!record.provenance.complete);
    let texts = record.provenance.warnings.iter().filter(|warning| warning.rule == "failed");
    let texts: Vec<&str> = texts.map(|warning| warning.message.as_str()).collect();
    assert_eq!(texts.len(), 2, "of cells that have a figure, and ended before it was precise: {texts:?}");
    assert!(texts.iter().all(|texts| texts.contains("No such device")));
}

#[test]
fn missing_program_is_reported_with_its_package() {
    let probe = Scripted { answer: by_distance, log: RefCell::default() };
    let fio = Fio { path: path(), registered: false };
    let error = run_on(&probe, &fio, &IoOptions::default()).map(|_| ());
    let (program, remedy) = ("fio".to_owned(), "apt-get install fio".to_owned());
    assert_eq!(error, Err(CampaignError::NoProgram { program, remedy }));
}

#[test]
fn oversized_buffers_fail_only_their_cell() {
    let matrix = Matrix { streams: vec![1, 1 << 20], directions: vec![Read], ..Matrix::default() };
    let (record, log) = measured(&places(matrix));
    assert!(log.iter().all(|io| io.streams() == 1));
    let failed = record
        .cells
        .iter()
        .filter(|cell| cell.bytes_per_s.failure.as_deref().is_some_and(|why| why.contains("bytes free")));
    assert_eq!(failed.count(), 4);
}
