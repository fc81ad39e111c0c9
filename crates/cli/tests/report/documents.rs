//! Documents of simulated machines, with values that are easy to distinguish.

use numaio_machine::conditions::Conditions;
use numaio_machine::discover::discover;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::Residency;
use numaio_machine::set::NodeSet;
use numaio_machine::tape::{Recording, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, Direction, Flow, Pages, Placement, StreamLoop, StreamOp};
use numaio_measure::{campaign, LatencyOptions, Options, Setting, StreamOptions};
use numaio_model::ClassOptions;
use numaio_schema::*;
use numaio_sim::{shapes, Simulated};

/// The time of a measurement.
pub const MEASURED_AT: u64 = 1_795_000_000;

/// Returns a machine of a named shape of `numaio_sim`.
pub fn machine(shape: &str) -> Topology {
    discover(&numaio_sim::render(&shapes::named(shape).expect("a shape")))
}

pub fn provenance(topology: &Topology, measured_at: u64) -> Provenance {
    let conditions = Conditions { numa_balancing: Some(0), ..Conditions::default() };
    Provenance {
        numaio: "0.1.0".into(),
        measured_at,
        machine: topology.identity.clone(),
        source: MachineSource::Simulated,
        conditions: (conditions.clone(), conditions),
        warnings: Vec::new(),
        complete: true,
        load: Vec::new(),
    }
}

/// Returns a reproducible pseudo-random number from 0 to 1.
fn noise(seed: u64) -> f64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

/// Returns the bandwidth of a pair of nodes relative to local bandwidth: it depends on the package
/// and on noise.
fn share(from: u32, to: u32, salt: u64) -> f64 {
    let noise = noise(u64::from(from) << 20 | u64::from(to) << 8 | salt);
    match (from == to, from / 4 == to / 4) {
        (true, _) => 1.0,
        (_, true) => 0.86 + 0.04 * noise,
        _ if noise > 0.7 => 0.44 + 0.04 * noise,
        _ => 0.66 + 0.05 * noise,
    }
}

pub fn reading(value: f64, salt: u64) -> Reading {
    let visits: Vec<ReadingVisit> = (0..2)
        .map(|round| {
            let median = value * (1.0 + 0.01 * (noise(salt * 8 + u64::from(round)) - 0.5));
            ReadingVisit {
                round,
                median,
                min: median * 0.99,
                max: median * 1.01,
                samples: 10,
                start_skew_ns: 900,
                residency: Residency::default(),
                excluded: None,
            }
        })
        .collect();
    let medians: Vec<f64> = visits.iter().map(|visit| visit.median).collect();
    Reading { visits, summary: Summary::of(&medians, None), settled: true, failure: None }
}

fn rounds() -> Rounds {
    Rounds { precision: 0.02, time_limit_s: 300.0, elapsed_s: 84.0, seed: 1, rounds: 6 }
}

fn first_cpu(topology: &Topology, node: NodeId) -> CpuId {
    topology.node(node).and_then(|node| node.cpus.first()).expect("a CPU")
}

fn pairs(topology: &Topology) -> Vec<(NodeId, NodeId)> {
    let memory = topology.memory_nodes();
    topology
        .cpu_nodes()
        .iter()
        .flat_map(|cpu| memory.iter().map(move |node| (cpu, node)).collect::<Vec<_>>())
        .collect()
}

pub fn stream(topology: &Topology, ops: &[StreamOp], measured_at: u64) -> StreamRecord {
    let cell = |op: StreamOp, (cpu_node, memory_node): (NodeId, NodeId)| StreamCell {
        op,
        cpu_node,
        memory_node,
        placement: Placement { cpus: topology.node(cpu_node).expect("a node").cpus.clone() },
        bytes_per_s: reading(
            187.3e9 * share(cpu_node.0, memory_node.0, op as u64),
            measured_at + u64::from(cpu_node.0 * 64 + memory_node.0) * 4 + op as u64,
        ),
    };
    StreamRecord {
        schema: STREAM_SCHEMA.into(),
        provenance: provenance(topology, measured_at),
        method: StreamMethod {
            loops: ops.iter().map(|op| (*op, StreamLoop::Avx512)).collect(),
            trials: vec![StreamTrial { op: ops[0], stream_loop: StreamLoop::Avx2, bytes_per_s: Some(180e9) }],
            scope: StreamScope::Node { threads: None },
            bytes_per_array: vec![(NodeId(0), 64 << 20)],
            pages: Pages::Transparent,
            rounds: rounds(),
        },
        classes: Vec::new(),
        cells: ops.iter().flat_map(|op| pairs(topology).into_iter().map(|pair| cell(*op, pair))).collect(),
    }
}

pub fn latency(topology: &Topology, measured_at: u64) -> LatencyRecord {
    let idle = |(cpu_node, memory_node): (NodeId, NodeId)| LatencyCell {
        cpu_node,
        cpu: first_cpu(topology, cpu_node),
        memory_node,
        ns_per_load: reading(
            92.4 / share(cpu_node.0, memory_node.0, 7),
            u64::from(cpu_node.0 * 64 + memory_node.0),
        ),
    };
    let targets: Vec<NodeId> = topology.memory_nodes().iter().take(3).collect();
    let first = topology.cpu_nodes().first().expect("a node");
    let curve = |memory_node: NodeId| LoadedCurve {
        cpu_node: first,
        cpu: first_cpu(topology, first),
        placement: Placement { cpus: topology.node(first).expect("a node").cpus.clone() },
        memory_node,
        points: (0..8u32).map(|step| point(step, share(first.0, memory_node.0, 7))).collect(),
    };
    LatencyRecord {
        schema: LATENCY_SCHEMA.into(),
        provenance: provenance(topology, measured_at),
        method: LatencyMethod {
            bytes: vec![(first, 1 << 30)],
            stride_bytes: 256,
            pages: Pages::Huge,
            rounds: rounds(),
        },
        cells: pairs(topology).into_iter().map(idle).collect(),
        curves: targets.into_iter().map(curve).collect(),
    }
}

/// Simulates a queue: latency grows as the load approaches the capacity of the path.
fn point(step: u32, share: f64) -> LoadPoint {
    let used = f64::from(step) / 7.4;
    let load = reading(187e9 * share * used.max(0.02), u64::from(step) + 500).summary;
    LoadPoint {
        gap_ns: 4000 >> step,
        load_bytes_read_per_s: load,
        ns_per_load: reading(92.4 / share * (1.0 + 0.3 * used / (1.0 - used)), u64::from(step) + 900),
    }
}

/// Returns a copy model of all pairs of nodes.
pub fn model(topology: &Topology, measured_at: u64) -> Model {
    let mut cells = Vec::new();
    for (target, node) in pairs(topology) {
        for direction in [Direction::Write, Direction::Read] {
            let flow = Flow::of(direction, target, node);
            if direction == Direction::Read && target == node {
                continue;
            }
            cells.push(cell(topology, target, flow, 61.7e9 * share(flow.source.0, flow.sink.0, 3)));
        }
    }
    let record = Record {
        schema: RECORD_SCHEMA.into(),
        provenance: provenance(topology, measured_at),
        method: Method {
            copy_loop: CopyLoop::Avx2,
            c_library: None,
            trials: vec![LoopTrial { copy_loop: CopyLoop::Avx2, bytes_copied_per_s: Some(60e9) }],
            bus_bytes_per_byte: 2,
            bytes_per_thread: vec![(NodeId(0), 64 << 20)],
            pages: Pages::Transparent,
            repetitions: None,
            precision: 0.02,
            time_limit_s: 300.0,
            elapsed_s: 84.2,
            seed: 1,
            rounds: 6,
        },
        cells,
    };
    numaio_model::fit(record, topology, ClassOptions::default())
}

fn cell(topology: &Topology, target: NodeId, flow: Flow, value: f64) -> Cell {
    let reading = reading(value, u64::from(flow.source.0 * 64 + flow.sink.0));
    let visit = |visit: &ReadingVisit| Visit {
        round: visit.round,
        bytes_copied_per_s: visit.median,
        min_bytes_copied_per_s: visit.min,
        max_bytes_copied_per_s: visit.max,
        samples: visit.samples,
        start_skew_ns: 900,
        residency: Residency::default(),
        excluded: None,
    };
    Cell {
        target,
        flow,
        placement: Placement { cpus: topology.node(target).expect("a node").cpus.clone() },
        visits: reading.visits.iter().map(visit).collect(),
        bytes_copied_per_s: reading.summary,
        settled: true,
        failure: None,
    }
}

/// Returns a tape of a simulated machine with every measurement of a report.
pub fn complete_tape(shape: &str) -> String {
    let header = TapeHeader {
        tape: TAPE_SCHEMA.into(),
        numaio: "0".into(),
        name: shape.into(),
        note: "simulated".into(),
        recorded_at: MEASURED_AT,
    };
    let machine = Simulated::new(shapes::named(shape).expect("a shape")).expect("a machine");
    // Discovery reads files in several threads, but a simulation is limited to one.
    let files = Recording::new(machine.tree(), header.clone());
    let probes = Recording::new(machine, header);
    let (topology, source) = (discover(&files), MachineSource::Simulated);
    let setting = Setting {
        root: &files,
        probe: &probes,
        load: None,
        topology: &topology,
        source,
        now: MEASURED_AT,
        stop: &|| false,
    };
    let rule = numaio_measure::Rule { least_visits: 6, ..Default::default() };
    let copies = Options { targets: topology.cpu_nodes(), least_visits: 6, ..Default::default() };
    campaign::run(&setting, &copies, &mut |_| {}).expect("copies");
    let options = StreamOptions { rule, ..Default::default() };
    numaio_measure::stream::run(&setting, &options, &mut |_| {}).expect("STREAM");
    let options = LatencyOptions { rule, ..Default::default() };
    numaio_measure::latency::run(&setting, &options, &mut |_| {}).expect("latency");
    Tape { runs: probes.tape().runs, ..files.tape() }.to_text()
}

/// Returns a comparison of three views: hop distance, and the copy model in both directions.
pub fn comparison(topology: &Topology, model: &Model, target: NodeId) -> Comparison {
    let target_model = model.targets.iter().find(|it| it.target == target).expect("a target");
    let mut views: Vec<View> =
        target_model.directions.iter().map(|it| copy_view(topology, target, it)).collect();
    views.insert(0, slit(topology, target));
    let mut agreements = Vec::new();
    for (index, first) in views.iter().enumerate() {
        for second in &views[index + 1..] {
            agreements.push(agreement(first, second));
        }
    }
    Comparison {
        schema: COMPARISON_SCHEMA.into(),
        numaio: "0.1.0".into(),
        machine: topology.identity.clone(),
        measured_at: model.record.provenance.measured_at,
        target,
        devices: target_model.devices.clone(),
        views,
        agreements,
        warnings: Vec::new(),
    }
}

fn view(topology: &Topology, name: &str, title: &str, target: NodeId, quantity: Quantity) -> View {
    View {
        schema: VIEW_SCHEMA.into(),
        name: name.into(),
        title: title.into(),
        machine: topology.identity.fingerprint.clone(),
        target,
        direction: None,
        quantity,
        nodes: Vec::new(),
        level: 0.1,
        classes: Vec::new(),
        incomplete: false,
        measured_at: None,
    }
}

fn slit(topology: &Topology, target: NodeId) -> View {
    let distances = topology.distances.as_ref().expect("distances");
    let mut it = view(topology, "slit", "SLIT hop distance", target, Quantity::Distance);
    for node in &distances.nodes {
        let value = f64::from(distances.between(target, *node).expect("a distance"));
        let factor = Some(value / 10.0);
        it.nodes.push(NodeValue { node: *node, value, interval: None, n: 0, drift: 0.0, factor });
    }
    let mut levels: Vec<f64> = it.nodes.iter().map(|node| node.value).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    for (index, level) in levels.into_iter().enumerate() {
        let nodes: NodeSet =
            it.nodes.iter().filter(|node| node.value == level).map(|node| node.node).collect();
        it.classes.push(ViewClass { rank: index as u32 + 1, nodes, min: level, max: level, mean: level });
    }
    it
}

fn copy_view(topology: &Topology, target: NodeId, model: &DirectionModel) -> View {
    let (name, title) = match model.direction {
        Direction::Write => ("copy-write", "Copy model, device write"),
        Direction::Read => ("copy-read", "Copy model, device read"),
    };
    let mut it = view(topology, name, title, target, Quantity::BytesPerS);
    it.direction = Some(model.direction);
    for node in &model.nodes {
        it.nodes.push(NodeValue {
            node: node.node,
            value: node.bytes_copied_per_s,
            interval: Some(node.interval_bytes_copied_per_s),
            n: 6,
            drift: 0.001,
            factor: node.numa_factor,
        });
    }
    for class in &model.classes {
        it.classes.push(ViewClass {
            rank: class.rank,
            nodes: class.nodes.clone(),
            min: class.min_bytes_copied_per_s,
            max: class.max_bytes_copied_per_s,
            mean: class.mean_bytes_copied_per_s,
        });
    }
    it
}

fn agreement(first: &View, second: &View) -> Agreement {
    let rank = |view: &View, node: NodeId| {
        view.classes.iter().find(|class| class.nodes.contains(node)).map(|class| class.rank)
    };
    let nodes: NodeSet = first.nodes.iter().map(|value| value.node).collect();
    let mut it = Agreement {
        first: first.name.clone(),
        second: second.name.clone(),
        nodes: nodes.clone(),
        tau_b: None,
        concordant: 0,
        tied_in_one: 0,
        tied_in_both: 0,
        inversions: Vec::new(),
        same_classes: false,
    };
    for a in nodes.iter() {
        for b in nodes.iter().filter(|b| *b != a) {
            if rank(first, a) < rank(first, b) && rank(second, a) > rank(second, b) {
                let (better_in_first, better_in_second) = (a, b);
                it.inversions.push(Inversion {
                    better_in_first,
                    better_in_second,
                    factor_in_first: 1.5,
                    factor_in_second: 1.2,
                });
            } else if rank(first, a) < rank(first, b) && rank(second, a) < rank(second, b) {
                it.concordant += 1;
            }
        }
    }
    let (concordant, inverted) = (f64::from(it.concordant), it.inversions.len() as f64);
    it.tau_b = Some((concordant - inverted) / (concordant + inverted)).filter(|tau| tau.is_finite());
    it
}
