//! Prints how well predictions hold for simulated devices with random rules, rates and noise.
//! Nothing here passes or fails.
//!
//! Usage: `predict [DEVICES [FIRST_SEED [RULE]]]`. With a rule, all devices have it. Each device is
//! measured as `numaio bench disk` does. Then `--suggest` chooses at most three mixes, and eight
//! others are predicted in each direction.
#![allow(clippy::print_stdout)]

use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{
    Direction, DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, Sampling, StreamGroup,
};
use numaio_measure::engine::Disk;
use numaio_measure::io::{self, IoSelection, Matrix, MixPart};
use numaio_measure::{IoOptions, Setting};
use numaio_model::{capacities, predict, suggest_mix, CapacityInputs, DeviceFit};
use numaio_schema::{ClassRepresentative, IoRecord, MachineSource, NodeStreams};
use numaio_sim::devices::{self, RandomDevice};
use numaio_sim::Simulated;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Default first seed: the models were developed with lower ones.
const FIRST_SEED: u64 = 10_000;
/// Mixes that are measured before the prediction.
const MIXES: usize = 3;
/// Unseen mixes of each direction.
const UNSEEN: usize = 8;
/// Numbers of streams that `numaio bench disk` measures.
const STREAMS: [u32; 5] = [1, 2, 4, 8, 16];

/// A predicted mix.
#[derive(Debug, Clone)]
struct Case {
    rule: &'static str,
    error: f64,
    equation_1: f64,
    covered: bool,
    width: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let rule = arguments.get(2).and_then(|text| devices::RULES.iter().position(|rule| rule == text));
    let (devices, first) =
        (numbers.first().copied().unwrap_or(10_000), numbers.get(1).copied().unwrap_or(FIRST_SEED));
    for every_node in [true, false] {
        let part = if every_node { devices } else { devices.div_ceil(10) };
        let what = if every_node { "every node measured" } else { "one node of each class measured" };
        println!("{part} devices, {what}, at most {MIXES} mixes, {UNSEEN} unseen mixes a direction\n");
        let seeds: Vec<u64> = match rule {
            Some(rule) => (first..)
                .filter(|seed| seed % devices::RULES.len() as u64 == rule as u64)
                .take(part as usize)
                .collect(),
            None => (first..first + part).collect(),
        };
        print_table(&all_cases(&seeds, every_node));
    }
}

/// Measures and predicts all devices, on all CPUs.
fn all_cases(seeds: &[u64], every_node: bool) -> Vec<Case> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || loop {
        let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
        let cases = device_cases(seed, every_node);
        found.lock().expect("no panic").extend(cases);
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(worker);
        }
    });
    found.into_inner().expect("no panic")
}

fn print_table(cases: &[Case]) {
    println!("| rule | predictions | median | p95 | worst | interval holds | width | Equation 1 median | p95 | worst |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mixture = devices::RULES[devices::RULES.len() - 1];
    let known: Vec<&Case> = cases.iter().filter(|case| case.rule != mixture).collect();
    for rule in devices::RULES {
        row(rule, &cases.iter().filter(|case| case.rule == rule).collect::<Vec<_>>());
    }
    row("all rules of the family", &known);
    row("all devices", &cases.iter().collect::<Vec<_>>());
    println!();
}

fn row(name: &str, cases: &[&Case]) {
    if cases.is_empty() {
        return;
    }
    let sorted = |of: &dyn Fn(&Case) -> f64| {
        let mut values: Vec<f64> = cases.iter().map(|case| of(case)).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize] * 100.0;
        [at(0.5), at(0.95), at(1.0)]
    };
    let [median, p95, worst] = sorted(&|case| case.error);
    let [eq_median, eq_p95, eq_worst] = sorted(&|case| case.equation_1);
    let [width, ..] = sorted(&|case| case.width);
    let covered = cases.iter().filter(|case| case.covered).count() as f64 / cases.len() as f64 * 100.0;
    println!(
        "| {name} | {} | {median:.2} % | {p95:.1} % | {worst:.1} % | {covered:.1} % | {width:.1} % | \
         {eq_median:.1} % | {eq_p95:.1} % | {eq_worst:.1} % |",
        cases.len()
    );
}

/// A simulated machine and its topology.
struct Machine {
    machine: Simulated,
    topology: Topology,
}

impl Machine {
    fn io(&self, what: IoSelection, now: u64) -> IoRecord {
        let found = self.topology.devices.iter().find(|device| device.has_name(devices::NAME));
        let device = io::device(found.expect("the drive"), None);
        let setting = Setting {
            root: &self.machine,
            probe: &self.machine,
            load: None,
            topology: &self.topology,
            source: MachineSource::Simulated,
            now,
            stop: &|| false,
        };
        let options = IoOptions { what, ..IoOptions::default() };
        io::run(&setting, &Disk { path: disk() }, device, &options, &mut |_| {}).expect("I/O")
    }

    /// Bandwidth of a mix without noise, in bytes per second.
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

fn disk() -> DiskPath {
    DiskPath {
        path: format!("/dev/{}", devices::NAME),
        offset: 0,
        bytes: 1 << 30,
        method: DiskMethod::Uring,
        direct: true,
        order: DiskOrder::Sequential,
    }
}

fn device_cases(seed: u64, every_node: bool) -> Vec<Case> {
    let device = devices::random(seed);
    let machine = Simulated::new(device.spec.clone()).expect("a machine");
    let machine = Machine { topology: discover(&machine.tree()), machine };
    let mut cases = Vec::new();
    for direction in [Direction::Write, Direction::Read] {
        let represented =
            if every_node { Vec::new() } else { represented(device.levels(direction), direction) };
        let matrix = Matrix {
            directions: vec![direction],
            streams: STREAMS.to_vec(),
            represented,
            ..Matrix::default()
        };
        let mut records = vec![machine.io(IoSelection::Matrix(matrix), 1)];
        let among = io::local_nodes(&machine.topology);
        let mut measured: Vec<Vec<NodeStreams>> = Vec::new();
        for _ in 0..MIXES {
            let fit = fit(&records, direction);
            let Some(suggested) = suggest_mix(&fit, &among, &[], &measured) else { break };
            records.insert(0, machine.io(mixed(direction, &suggested.streams), 2 + measured.len() as u64));
            measured.push(suggested.streams);
        }
        cases.extend(unseen(seed, &device, &machine, direction, &measured, &fit(&records, direction)));
    }
    cases
}

fn represented(levels: &[Vec<NodeId>], direction: Direction) -> Vec<ClassRepresentative> {
    levels
        .iter()
        .map(|nodes| ClassRepresentative { direction, node: nodes[0], nodes: nodes.clone() })
        .collect()
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

fn fit(records: &[IoRecord], direction: Direction) -> DeviceFit {
    let records: Vec<&IoRecord> = records.iter().collect();
    let inputs = CapacityInputs {
        records: &records,
        model: None,
        link_bytes_per_s: None,
        direction,
        operation: None,
        memory_only: &NodeSet::new(),
    };
    capacities(&inputs, &[]).expect("capacities")
}

fn unseen(
    seed: u64,
    device: &RandomDevice,
    machine: &Machine,
    direction: Direction,
    measured: &[Vec<NodeStreams>],
    fit: &DeviceFit,
) -> Vec<Case> {
    let random = &mut Random(seed ^ (direction == Direction::Read) as u64 ^ 0xabcd_0000);
    let mut cases = Vec::new();
    while cases.len() < UNSEEN {
        let mix = random_mix(random, device.spec.nodes.len() as u64);
        if measured.contains(&mix) {
            continue;
        }
        let (found, truth) = (predict(fit, &mix).expect("a prediction"), machine.truth(direction, &mix));
        let case = Case {
            rule: device.rule,
            error: (found.limits.bytes_per_s / truth - 1.0).abs(),
            equation_1: (found.equation_1.bytes_per_s / truth - 1.0).abs(),
            covered: found.limits.low <= truth && truth <= found.limits.high,
            width: (found.limits.high - found.limits.low) / found.limits.bytes_per_s / 2.0,
        };
        cases.push(case);
    }
    cases
}

/// Returns a mix of 2 to 6 streams on 2 to 4 nodes.
fn random_mix(random: &mut Random, nodes: u64) -> Vec<NodeStreams> {
    loop {
        let mut by_node: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..2 + random.below(5) {
            *by_node.entry(random.below(nodes) as u32).or_default() += 1;
        }
        if (2..=4).contains(&by_node.len()) {
            let streams = |(node, streams)| NodeStreams { node: NodeId(node), streams };
            return by_node.into_iter().map(streams).collect();
        }
    }
}

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
