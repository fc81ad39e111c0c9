//! Models for tests.

use super::machines::{cpus, set};
use numaio_machine::conditions::Conditions;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::Residency;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, Direction, Flow, Pages, Placement};
use numaio_schema::*;

/// 1 Gbit/s in bytes per second.
const GBIT: f64 = 1e9 / 8.0;

/// Builds one direction from bandwidths in Gbit/s and classes as node lists, best first.
pub fn direction(direction: Direction, target: u32, gbit: &[(u32, f64)], classes: &[&str]) -> DirectionModel {
    let of = |node: u32| gbit.iter().find(|(id, _)| *id == node).unwrap().1 * GBIT;
    let local = of(target);
    let mut nodes: Vec<NodeBandwidth> = gbit
        .iter()
        .map(|(id, gbit)| NodeBandwidth {
            node: NodeId(*id),
            bytes_copied_per_s: gbit * GBIT,
            interval_bytes_copied_per_s: (gbit * GBIT * 0.99, gbit * GBIT * 1.012),
            numa_factor: Some(local / (gbit * GBIT)),
            settled: true,
            modes_bytes_copied_per_s: Vec::new(),
            mode_shares: Vec::new(),
        })
        .collect();
    nodes.sort_by_key(|node| node.node);
    let class = |(index, members): (usize, &&str)| {
        let nodes: NodeSet = set(members);
        let values: Vec<f64> = nodes.iter().map(|node| of(node.0)).collect();
        Class {
            rank: index as u32 + 1,
            nodes,
            min_bytes_copied_per_s: values.iter().copied().fold(f64::INFINITY, f64::min),
            max_bytes_copied_per_s: values.iter().copied().fold(0.0, f64::max),
            mean_bytes_copied_per_s: values.iter().sum::<f64>() / values.len() as f64,
        }
    };
    DirectionModel {
        direction,
        rule: ClassRule::Measured,
        level: 0.1,
        classes: classes.iter().enumerate().map(class).collect(),
        nodes,
        missing: NodeSet::new(),
    }
}

fn visit(round: u32, bytes_copied_per_s: f64) -> Visit {
    Visit {
        round,
        bytes_copied_per_s,
        min_bytes_copied_per_s: bytes_copied_per_s * 0.9,
        max_bytes_copied_per_s: bytes_copied_per_s * 1.1,
        samples: 10,
        start_skew_ns: 1000,
        residency: Residency::default(),
        excluded: None,
    }
}

/// Returns a cell with eight visits for each value of the targets.
fn cells(targets: &[TargetModel]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for target in targets {
        for model in &target.directions {
            for node in &model.nodes {
                let (low, high) = node.interval_bytes_copied_per_s;
                let median = node.bytes_copied_per_s;
                let summary = Summary {
                    n: 8,
                    median,
                    mad: (high - low) / 4.0,
                    low,
                    high,
                    interval: IntervalKind::OrderStatistics,
                    min: low,
                    max: high,
                    drift: 0.0,
                    modes: Vec::new(),
                };
                cells.push(Cell {
                    target: target.target,
                    flow: Flow::of(model.direction, target.target, node.node),
                    placement: Placement { cpus: cpus("28-31") },
                    visits: (0..8).map(|round| visit(round, median)).collect(),
                    bytes_copied_per_s: Some(summary),
                    settled: node.settled,
                    failure: None,
                });
            }
        }
    }
    cells
}

pub fn model(machine: &Topology, targets: Vec<TargetModel>) -> Model {
    let loops = [(CopyLoop::Memcpy, Some(5.0e9)), (CopyLoop::Avx2, Some(6.4e9)), (CopyLoop::Avx512, None)];
    let conditions = Conditions {
        numa_balancing: Some(0),
        transparent_huge_pages: Some("madvise".into()),
        governors: vec!["performance".into()],
        turbo: Some(false),
        ..Conditions::default()
    };
    let record = Record {
        schema: RECORD_SCHEMA.into(),
        provenance: Provenance {
            numaio: "0.1.0".into(),
            measured_at: 1_795_231_479,
            machine: machine.identity.clone(),
            source: MachineSource::Live,
            conditions: (conditions.clone(), conditions),
            warnings: Vec::new(),
            complete: true,
            load: Vec::new(),
        },
        method: Method {
            copy_loop: CopyLoop::Avx2,
            c_library: None,
            trials: loops
                .map(|(copy_loop, bytes_copied_per_s)| LoopTrial { copy_loop, bytes_copied_per_s })
                .into(),
            bus_bytes_per_byte: 2,
            bytes_per_thread: targets.iter().map(|target| (target.target, 64 << 20)).collect(),
            pages: Pages::Transparent,
            repetitions: None,
            precision: 0.02,
            time_limit_s: 600.0,
            elapsed_s: 84.2,
            seed: 1,
            rounds: 8,
        },
        cells: cells(&targets),
    };
    Model { schema: MODEL_SCHEMA.into(), targets, record }
}

/// Li et al. (ICPP 2013): node 7 of the DL585, in Gbit/s.
pub fn paper() -> Model {
    let write = [(7, 51.7), (6, 46.5), (0, 46.9), (1, 44.0), (4, 44.0), (5, 42.9), (2, 27.3), (3, 26.0)];
    let read = [(7, 51.7), (6, 47.1), (2, 50.3), (3, 46.9), (0, 40.9), (1, 40.4), (5, 39.9), (4, 27.9)];
    let mut directions = vec![
        direction(Direction::Write, 7, &write, &["6-7", "0-1,4-5", "2-3"]),
        direction(Direction::Read, 7, &read, &["6-7", "2-3", "0-1,5", "4"]),
    ];
    for model in &mut directions {
        model.rule = ClassRule::Paper;
    }
    let target = TargetModel {
        target: NodeId(7),
        devices: vec!["eth2".into(), "nvme0n1".into()],
        neighbors: set("6"),
        directions,
    };
    let mut it = model(&super::machines::dl585(), vec![target]);
    it.record.provenance.source =
        MachineSource::Tape { name: "dl585".into(), note: "emulated after Li et al., ICPP 2013".into() };
    it
}

/// The paper's model with all kinds of doubtful values.
pub fn doubtful() -> Model {
    let mut it = paper();
    it.record.provenance.complete = false;
    it.record.provenance.source = MachineSource::Live;
    it.record.provenance.warnings = vec![Warning {
        rule: "other-load".into(),
        message: "other processes used 31 % of the processors' time while it was measured, so figures are too low; \
               stop them, or measure when the machine is idle"
            .into(),
    }];
    let write = &mut it.targets[0].directions[0];
    write.rule = ClassRule::Measured;
    write.missing = set("3-4,10");
    write.nodes.retain(|node| !write.missing.contains(node.node));
    for class in &mut write.classes {
        class.nodes = class.nodes.difference(&write.missing);
    }
    write.nodes[0].modes_bytes_copied_per_s = vec![7.6e9, 5.1e9];
    write.nodes[0].mode_shares = vec![0.7, 0.3];
    write.nodes[1].settled = false;
    it.targets[0].directions.truncate(1);
    for cell in &mut it.record.cells {
        match cell.flow.source.0 {
            1 => {
                let summary = cell.bytes_copied_per_s.as_mut().unwrap();
                (summary.interval, summary.n) = (IntervalKind::Range, 3);
                cell.visits[0].excluded = Some("12 of 4096 pages were on node 2".into());
            }
            2 => cell.failure = Some("2 of 8: mbind to node 2: Cannot allocate memory".into()),
            3 => cell.failure = Some("node 3 has 1048576 bytes free, and the buffers need 268435456".into()),
            _ => {}
        }
    }
    it
}

/// Two equal nodes.
pub fn uniform() -> Model {
    let target = |id: u32, devices: &[&str]| TargetModel {
        target: NodeId(id),
        devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        neighbors: set(""),
        directions: vec![
            direction(Direction::Write, id, &[(0, 800.0), (1, 792.0)], &["0-1"]),
            direction(Direction::Read, id, &[(0, 700.0), (1, 600.0)], &["0-1"]),
        ],
    };
    model(&super::machines::uniform(), vec![target(0, &["nvme0n1"]), target(1, &[])])
}

/// A simulated machine with one node, measured with the paper's fixed repetitions.
pub fn single() -> Model {
    let target = TargetModel {
        target: NodeId(0),
        devices: vec!["vda\x1b[31m".into()],
        neighbors: set(""),
        directions: vec![direction(Direction::Write, 0, &[(0, 97.3)], &["0"])],
    };
    let mut it = model(&super::machines::vm(), vec![target]);
    it.record.provenance.source = MachineSource::Simulated;
    it.record.method.repetitions = Some(100);
    it.record.method.trials.clear();
    it
}
