//! Tests of `numaio validate` and `numaio predict` with measurements of simulated machines, and of
//! the accuracy of predicted mixes.

use crate::support::{expect, Home};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{
    CopyLoop, Direction, DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, Sampling, StreamGroup,
};
use numaio_measure::engine::Disk;
use numaio_measure::io::{IoSelection, Matrix, MixPart};
use numaio_measure::{campaign, io, stream, IoOptions, Options, Rule, Setting, StreamOptions};
use numaio_model::{best_mix, capacities, predict, suggest_mix, CapacityInputs};
use numaio_schema::{
    ClassRepresentative, IoDevice, IoPrediction, IoRecord, MachineSource, Model, NodeStreams, Role,
    SharingModel, StreamRecord, TopologyDocument, Validation,
};
use numaio_sim::spec::{IoRates, IoSpec, SharingRule};
use numaio_sim::{shapes, Simulated, Spec};
use std::collections::BTreeMap;
use Direction::{Read, Write};

fn disk() -> DiskPath {
    DiskPath {
        path: "/dev/nvme0n1".into(),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    }
}

/// A simulated machine and its topology.
struct Measured {
    machine: Simulated,
    topology: Topology,
}

impl Measured {
    fn new(spec: Spec) -> Self {
        let machine = Simulated::new(spec).expect("a machine");
        let topology = discover(&machine.tree());
        Self { machine, topology }
    }

    fn setting(&self, now: u64) -> Setting<'_> {
        let (root, probe) = (&self.machine, &self.machine);
        Setting {
            root,
            probe,
            load: None,
            topology: &self.topology,
            source: MachineSource::Simulated,
            now,
            stop: &|| false,
        }
    }

    fn model(&self) -> Model {
        let options = Options { targets: NodeSet::one(NodeId(7)), least_visits: 6, ..Options::default() };
        let record = campaign::run(&self.setting(1_000), &options, &mut |_| {}).expect("copies");
        let classes = numaio_model::ClassOptions { classes: numaio_schema::ClassRule::Paper, level: 0.1 };
        numaio_model::fit(record, &self.topology, classes)
    }

    fn stream(&self) -> StreamRecord {
        let rule = Rule { least_visits: 6, ..Rule::default() };
        let options = StreamOptions { around: NodeSet::one(NodeId(7)), rule, ..StreamOptions::default() };
        stream::run(&self.setting(1_001), &options, &mut |_| {}).expect("STREAM")
    }

    fn io(&self, what: IoSelection, now: u64) -> IoRecord {
        let found = self.topology.devices.iter().find(|device| device.has_name("nvme0n1"));
        let device: IoDevice = io::device(found.expect("the drive"), None);
        let options = IoOptions { what, ..IoOptions::default() };
        io::run(&self.setting(now), &Disk { path: disk() }, device, &options, &mut |_| {}).expect("I/O")
    }

    /// Returns the bandwidth of a mix without noise, in bytes per second.
    fn truth(&self, direction: Direction, mix: &[NodeStreams]) -> f64 {
        let spec = self.machine.spec();
        let group = |flow: &NodeStreams| StreamGroup {
            cpus: spec.node(flow.node).expect("a node").cpus.clone(),
            memory: flow.node,
            streams: flow.streams,
            direction,
            device: 0,
        };
        let workload = IoWorkload {
            path: IoPath::Disk(disk()),
            others: Vec::new(),
            groups: mix.iter().map(group).collect(),
            block_bytes: 128 << 10,
            depth: 16,
            sampling: Sampling::Window { milliseconds: 500, slices: 5 },
            max_bytes: None,
        };
        self.machine.io_truth(&workload).expect("it runs").iter().sum()
    }
}

fn matrix(directions: &[Direction], streams: &[u32], represented: Vec<ClassRepresentative>) -> IoSelection {
    let (directions, streams) = (directions.to_vec(), streams.to_vec());
    IoSelection::Matrix(Matrix { directions, streams, represented, ..Matrix::default() })
}

fn mixed(direction: Direction, mix: &[NodeStreams]) -> IoSelection {
    let part = |flow: &NodeStreams| MixPart {
        cpu_node: flow.node,
        memory: flow.node,
        streams: flow.streams,
        direction,
        device: 0,
    };
    IoSelection::Mixes(vec![mix.iter().map(part).collect()])
}

fn streams(parts: &[(u32, u32)]) -> Vec<NodeStreams> {
    parts.iter().map(|(node, streams)| NodeStreams { node: NodeId(*node), streams: *streams }).collect()
}

/// Writes documents of a simulated DL585: topology, model, STREAM, I/O, and a mix of writes.
fn documents(home: &Home) -> BTreeMap<&'static str, String> {
    // With non-temporal stores, the copies have the same classes as those of the paper.
    let dl585 = Measured::new(Spec { loops: vec![CopyLoop::Memcpy, CopyLoop::Avx2], ..shapes::dl585() });
    let mix = dl585.io(mixed(Write, &streams(&[(7, 4), (0, 4), (2, 4)])), 2_002);
    BTreeMap::from([
        ("topology", home.document("topology.json", &TopologyDocument::new(dl585.topology.clone()))),
        ("model", home.document("model.json", &dl585.model())),
        ("stream", home.document("stream.json", &dl585.stream())),
        ("io", home.document("io.json", &dl585.io(matrix(&[Write, Read], &[1, 4], Vec::new()), 2_001))),
        ("mix", home.document("mix.json", &mix)),
    ])
}

/// The tape was recorded in the lab, on an emulated disk with the rates of the paper's SSDs.
#[test]
fn validates_the_results_of_the_paper_on_a_tape() {
    let tape = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7-disk.tape");
    let home = Home::new();
    let json = home.run(&["validate", "--machine", tape, "--classes", "paper", "--json"]).ok();
    let found = Validation::from_json(&json).expect("a validation");
    let classes = |index: usize| -> Vec<String> {
        found.directions[index].classes.iter().map(|class| class.nodes.to_string()).collect()
    };
    assert_eq!((found.directions[0].direction, found.directions[1].direction), (Write, Read));
    assert_eq!(classes(0), ["6-7", "0-1,4-5", "2-3"]);
    assert_eq!(classes(1), ["6-7", "2-3", "0-1,5", "4"]);
    for direction in &found.directions {
        assert_eq!(direction.verdicts[0].rank_agreement(), Some(1.0));
        let roles: Vec<Role> = direction.columns.iter().map(|column| column.role).collect();
        assert_eq!(roles, [Role::Model, Role::Measured, Role::Baseline, Role::Baseline, Role::Baseline]);
    }
    let json = home.run(&["predict", "--machine", tape, "--device", "vda", "--mix", "4:1", "--json"]).ok();
    let mix = IoPrediction::from_json(&json).expect("a prediction").mix.expect("a mix");
    assert!((mix.limits.bytes_per_s / 18.5e6 - 1.0).abs() < 0.02, "{:?}", mix.limits);
}

#[test]
fn validates_and_predicts_from_files() {
    let home = Home::new();
    let files = documents(&home);
    let from: Vec<&str> = files.values().map(String::as_str).collect();
    let page = home.run(&[&["validate", "--from"], from.as_slice()].concat()).ok();
    expect("validate-simulated.txt", &page);
    let json =
        home.run(&[&["validate", "--json", "--device", "nvme0n1", "--from"], from.as_slice()].concat()).ok();
    let found = Validation::from_json(&json).expect("a validation");
    assert_eq!((found.target, found.measured_at, found.directions.len()), (NodeId(7), 2_001, 2));
    for direction in &found.directions {
        let roles: Vec<Role> = direction.columns.iter().map(|column| column.role).collect();
        assert_eq!(roles, [Role::Model, Role::Measured, Role::Baseline, Role::Baseline, Role::Baseline]);
        assert_eq!(direction.verdicts[0].rank_agreement(), Some(1.0));
        assert!(!direction.verdicts[0].device_bound && direction.verdicts[0].splits.is_empty());
    }
    let args = [
        "predict",
        "--device",
        "nvme0n1",
        "--direction",
        "write",
        "--mix",
        "2:2,7:2",
        "--best",
        "8",
        "--suggest",
        "--from",
    ];
    let page = home.run(&[&args, from.as_slice()].concat()).ok();
    expect("predict-simulated.txt", &page);
    let json = home.run(&[&["predict", "--json"], &args[1..], from.as_slice()].concat()).ok();
    let found = IoPrediction::from_json(&json).expect("a prediction");
    assert_eq!((found.capacities.fitted_mixes, found.capacities.sharing[0].model), (1, SharingModel::Bytes));
    let mix = found.mix.expect("a mix");
    let gbit = |bytes_per_s: f64| bytes_per_s * 8e-9;
    // Classes of the model: nodes 6 and 7 reach 28.8, nodes 2 and 3 reach 18 Gbit/s.
    assert!((gbit(mix.equation_1.bytes_per_s) - 23.4).abs() < 0.1, "{mix:?}");
    // One mix leaves several models possible, which predict up to 3 % more.
    assert!((gbit(mix.limits.bytes_per_s) / 28.8 - 1.0).abs() < 0.03, "{mix:?}");
    assert!(gbit(mix.limits.low) < 28.8 && gbit(mix.limits.high) > 28.7, "{mix:?}");
    assert_eq!(found.best.expect("the best").streams, streams(&[(7, 8)]));
    let suggested = found.suggested.expect("a mix to measure");
    assert!(suggested.streams.len() > 1 && suggested.deviation_after <= suggested.deviation_before);
}

/// The level is that of the model unless an option sets it.
#[test]
fn classifies_model_and_io_with_the_same_level() {
    let home = Home::new();
    let files = documents(&home);
    let model = std::fs::read_to_string(&files["model"]).expect("a file");
    let wide = numaio_model::ClassOptions { classes: numaio_schema::ClassRule::Measured, level: 0.3 };
    let wide = numaio_model::refit(Model::from_json(&model).expect("a model"), wide);
    let wide = home.document("wide.json", &wide);
    let levels = |model: &str, args: &[&str]| {
        let from = ["--json", "--from", files["io"].as_str(), files["topology"].as_str(), model];
        let json = home.run(&[&["validate"], args, &from].concat()).ok();
        let found = Validation::from_json(&json).expect("a validation");
        let write = found.directions.into_iter().next().expect("a direction");
        let column_levels: Vec<f64> = write.columns.iter().take(2).map(|column| column.view.level).collect();
        assert!(column_levels.iter().all(|level| *level == write.level), "{column_levels:?} {}", write.level);
        (write.rule.name(), write.level, write.classes.len())
    };
    assert_eq!(levels(&files["model"], &[]), ("paper", 0.1, 3));
    assert_eq!(levels(&files["model"], &["--level", "50"]), ("paper", 0.5, 2));
    let (rule, level, classes) = levels(&wide, &[]);
    assert_eq!((rule, level), ("measured", 0.3));
    assert!(levels(&wide, &["--level", "1"]).2 > classes);
    assert_eq!(levels(&wide, &["--classes", "paper"]).0, "paper");
}

#[test]
fn uses_an_incomplete_model_only_without_a_complete_one_and_warns() {
    let home = Home::new();
    let files = documents(&home);
    let mut newer =
        Model::from_json(&std::fs::read_to_string(&files["model"]).expect("a file")).expect("a model");
    newer.record.provenance.measured_at += 100;
    newer.record.provenance.complete = false;
    for cell in &mut newer.record.cells {
        if [cell.flow.source, cell.flow.sink].iter().any(|node| node.0 < 6) {
            cell.bytes_copied_per_s = None;
        }
    }
    let newer =
        home.document("newer.json", &numaio_model::refit(newer, numaio_model::ClassOptions::default()));
    let validate = |models: &[&str]| {
        let io = [files["io"].as_str(), files["topology"].as_str()];
        home.run(&[&["validate", "--from"], models, &io].concat()).ok()
    };
    assert_eq!(validate(&[&newer, &files["model"]]), validate(&[&files["model"]]));
    let page = validate(&[&newer]);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("incomplete: it has no device writes for nodes 0-5; numaio model --node 7"),
        "{page}"
    );
}

/// The measurement of the requested mix is not an input of its prediction.
#[test]
fn reports_the_error_of_a_measured_mix() {
    let home = Home::new();
    let files = documents(&home);
    let args = [
        "predict",
        "--json",
        "--device",
        "nvme0n1",
        "--direction",
        "write",
        "--mix",
        "2:4,7:4,0:4",
        "--from",
    ];
    let json = home.run(&[&args[..], &[&files["io"], &files["mix"], &files["topology"]]].concat()).ok();
    let found = IoPrediction::from_json(&json).expect("a prediction");
    assert_eq!(found.capacities.fitted_mixes, 0);
    let mix = found.mix.expect("a mix");
    let measured = mix.measured.expect("a measurement");
    // Without another mix all models are possible, so that only the interval is a prediction.
    assert!((mix.limits.low..=mix.limits.high).contains(&measured.estimate.bytes_per_s), "{mix:?}");
    assert!(measured.equation_1_error < -0.1, "{measured:?}");
}

#[test]
fn errors_name_the_command_that_measures_missing_inputs() {
    let home = Home::new();
    let files = documents(&home);
    let (io, model, topology) = (files["io"].as_str(), files["model"].as_str(), files["topology"].as_str());
    let validate = |args: &[&str]| home.run(&[&["validate"], args].concat());
    validate(&["--from", model, topology]).failed(1, &["no I/O was measured", "numaio bench disk"]);
    validate(&["--from", io]).failed(1, &["found no model of node 7", "numaio model --node 7"]);
    validate(&["--device", "eth0", "--from", model, topology, io])
        .failed(1, &["no I/O of eth0", "numaio bench net"]);
    validate(&["--device", "sda", "--from", model, io])
        .failed(2, &["there is no device 'sda'", "measured devices: nvme0n1"]);
    validate(&["--engine", "fio", "--from", model, io]).failed(1, &["no I/O was measured by fio"]);
    validate(&["--engine", "dd", "--from", model, io]).failed(2, &["'dd'", "expected one of disk"]);
    validate(&[]).failed(1, &["no I/O was measured"]);
    let predict = |args: &[&str]| {
        home.run(&[&["predict", "--device", "nvme0n1", "--from", io, topology], args].concat())
    };
    predict(&["--mix", "9:1"]).failed(2, &["there is no node 9", "nodes with memory: 0-7"]);
    predict(&["--mix", "1:0"]).failed(2, &["expected from 1 to 4096 streams"]);
    predict(&["--mix", "1"]).failed(2, &["'1'", "expected NODE:STREAMS"]);
    predict(&["--mix", "x:1"]).failed(2, &["expected a node number"]);
    predict(&["--mix", "1:99999"]).failed(2, &["expected from 1 to 4096 streams"]);
    predict(&["--mix", "1:4096,2:1"]).failed(2, &["too many streams: 4097"]);
    predict(&["--best", "0"]).failed(2, &["--best"]);
    predict(&["--best", "129"]).failed(2, &["--best"]);
    predict(&[]).failed(2, &["--mix"]);
    predict(&["--mix", "1:1", "--measure"]).failed(2, &["--measure"]);
    predict(&["--mix", "1:1", "--engine", "fio"]).failed(1, &["no I/O of nvme0n1 was measured by fio"]);
    let other = home.run(&["predict", "--device", "nvme1n1", "--mix", "1:1", "--from", io, topology]);
    other.failed(1, &["no I/O of nvme1n1 was measured", "numaio bench disk --device nvme1n1"]);
}

/// The disk does not exist, so that nothing can be overwritten.
#[test]
fn measures_writes_only_on_the_confirmed_device() {
    let home = Home::new();
    let here = TopologyDocument::from_json(&home.run(&["topology", "--json"]).ok()).expect("a topology");
    let node = here.topology.memory_nodes().first().expect("a node");
    let dl585 = Measured::new(shapes::dl585());
    let mut record = dl585.io(matrix(&[Write], &[1, 4], Vec::new()), 2_001);
    record.device.name = "numaio-none".into();
    record.provenance.machine = here.topology.identity.clone();
    let dir = home.0.join("state/numaio/io").join(&here.topology.identity.fingerprint);
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("000000002001.json"), serde_json::to_string(&record).expect("JSON"))
        .expect("a file");
    let (mix, device) = (format!("{node}:1"), record.device.pci.clone().expect("a PCI address"));
    let args = ["predict", "--device", &device, "--direction", "write", "--mix", &mix, "--measure"];
    let measure = |more: &[&str]| home.run(&[&args[..], more].concat());
    let option = "--i-know-this-destroys /dev/numaio-none";
    measure(&[]).failed(2, &["requires --file or --i-know-this-destroys", option]);
    measure(&["--i-know-this-destroys", &device])
        .failed(2, &["would overwrite '/dev/numaio-none'", &device, option]);
    measure(&["--i-know-this-destroys", "numaio-none"]).failed(1, &["open /dev/numaio-none"]);
}

#[test]
fn rejects_documents_of_different_machines() {
    let home = Home::new();
    let files = documents(&home);
    let mut model =
        Model::from_json(&std::fs::read_to_string(&files["model"]).expect("a file")).expect("a model");
    model.record.provenance.machine.fingerprint = "another".into();
    let other = home.document("other.json", &model);
    let output = home.run(&["validate", "--from", &files["io"], &other]);
    output.failed(1, &["describes machine another"]);
}

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn within(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Returns the random rates of a drive, and the nodes of each level.
///
/// Rates of a level differ by up to 2 %. The cap may be above all rates, and streams may have a
/// limit.
fn random_drive(random: &mut Random) -> (IoRates, Vec<Vec<u32>>) {
    let levels: Vec<f64> = (0..2 + random.below(3)).map(|_| random.within(1e9, 4e9)).collect();
    let mut members = vec![Vec::new(); levels.len()];
    let mut nodes = Vec::new();
    for node in 0..8 {
        let level = random.below(levels.len() as u64) as usize;
        members[level].push(node);
        nodes.push(levels[level] * random.within(0.99, 1.01));
    }
    let best = nodes.iter().copied().fold(0.0, f64::max);
    let cap = best * random.within(0.7, 2.5);
    let stream = (random.below(2) == 0).then(|| best * random.within(0.15, 0.8));
    members.retain(|nodes| !nodes.is_empty());
    (IoRates { nodes, cap, stream, sharing: SharingRule::Bytes, stalls: None, copied: false }, members)
}

/// Returns a mix of 2 to 8 streams on two or more nodes.
fn random_mix(random: &mut Random) -> Vec<NodeStreams> {
    loop {
        let mut by_node: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..2 + random.below(7) {
            *by_node.entry(random.below(8) as u32).or_default() += 1;
        }
        if by_node.len() > 1 {
            return streams(&by_node.into_iter().collect::<Vec<_>>());
        }
    }
}

/// Compares both predictors with random mixes on random machines. The inputs are measurements per
/// class and number of streams, and the mixes that are suggested.
#[test]
fn predicts_mixes_on_random_machines_within_their_intervals() {
    let (mut equation_1, mut limits, mut held) = (Vec::new(), Vec::new(), 0);
    for seed in 0..30 {
        let random = &mut Random(seed);
        let (rates, members) = random_drive(random);
        let mut spec = shapes::dl585();
        (spec.noise.seed, spec.noise.sample, spec.noise.run) = (seed, 0.02, 0.005);
        for device in spec.devices.iter_mut().filter(|device| device.io.is_some()) {
            device.io = Some(IoSpec { write: rates.clone(), read: rates.clone() });
        }
        let machine = Measured::new(spec);
        let representative = |nodes: &Vec<u32>| {
            let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
            ClassRepresentative { direction: Read, node: nodes[0], nodes }
        };
        let represented = members.iter().map(representative).collect();
        let cells = machine.io(matrix(&[Read], &[1, 2, 4, 8], represented), 1);
        let fitted = |records: &[&IoRecord]| {
            let inputs = CapacityInputs {
                records,
                model: None,
                link_bytes_per_s: None,
                direction: Read,
                operation: None,
                memory_only: &NodeSet::new(),
            };
            capacities(&inputs, &[]).expect("capacities")
        };
        let mut records = vec![cells];
        let mut measured: Vec<Vec<NodeStreams>> = Vec::new();
        for _ in 0..3 {
            let known = fitted(&records.iter().collect::<Vec<_>>());
            let nodes = io::local_nodes(&machine.topology);
            let Some(suggested) = suggest_mix(&known, &nodes, &[], &measured) else { break };
            records.insert(0, machine.io(mixed(Read, &suggested.streams), 2 + measured.len() as u64));
            measured.push(suggested.streams);
        }
        let capacities = fitted(&records.iter().collect::<Vec<_>>());
        let best = best_mix(&capacities, 8).expect("a mix").limits;
        for _ in 0..12 {
            let mix = random_mix(random);
            let (found, truth) =
                (predict(&capacities, &mix).expect("a prediction"), machine.truth(Read, &mix));
            let error = found.limits.bytes_per_s / truth - 1.0;
            held += usize::from(found.limits.low <= truth && truth <= found.limits.high);
            limits.push(error.abs());
            equation_1.push((found.equation_1.bytes_per_s / truth - 1.0).abs());
            // The search finds 97 %, and spreading over equal nodes costs at most 1 %.
            let is_comparable = mix.iter().map(|part| part.streams).sum::<u32>() == 8;
            let enough = !is_comparable || best.low >= found.limits.low * 0.96;
            assert!(enough, "seed {seed}: {best:?} of {:?}", found.limits);
        }
    }
    let summary = |errors: &mut Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        (errors[errors.len() / 2], errors[errors.len() - 1])
    };
    let ((median, worst), equation_1) = (summary(&mut limits), summary(&mut equation_1));
    let held = held as f64 / limits.len() as f64;
    println!("{} mixes: {median:.4} {worst:.4}, {held:.3} held, Equation 1 {equation_1:.4?}", limits.len());
    let of_20 = limits[limits.len() * 19 / 20];
    assert!(median <= 0.03 && of_20 <= 0.06 && worst <= 0.08, "{median:.4} {of_20:.4} {worst:.4}");
    assert!(held >= 0.9, "{held:.3} held");
    assert!(equation_1.0 > median, "Equation 1 ignores caps and limits of streams");
}
