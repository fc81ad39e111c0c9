//! Fitting of a model to a record of measurements.

use crate::classes::{classify, Point};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::{
    Cell, ClassRule, DirectionModel, Model, NodeBandwidth, Record, TargetModel, MODEL_SCHEMA,
};

/// Rule and level of the classification of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassOptions {
    /// The rule.
    pub classes: ClassRule,
    /// Share of a class's best value by which a member may be lower.
    pub level: f64,
}

impl Default for ClassOptions {
    fn default() -> Self {
        Self { classes: ClassRule::default(), level: 0.10 }
    }
}

/// Fits the model of every target and direction in the record; `topology` has packages and devices.
pub fn fit(record: Record, topology: &Topology, rule: ClassOptions) -> Model {
    let targets: NodeSet = record.cells.iter().map(|cell| cell.target).collect();
    let targets = targets.iter().map(|target| {
        let devices = topology.devices_on(target).map(|device| device.name()).collect();
        fit_target(&record, rule, target, devices, topology.neighbors(target))
    });
    Model { schema: MODEL_SCHEMA.to_owned(), targets: targets.collect(), record }
}

/// Classifies the measurements of a model by another rule.
pub fn refit(model: Model, rule: ClassOptions) -> Model {
    let Model { schema, targets, record } = model;
    let targets = targets
        .into_iter()
        .map(|old| fit_target(&record, rule, old.target, old.devices, old.neighbors))
        .collect();
    Model { schema, targets, record }
}

fn fit_target(
    record: &Record,
    rule: ClassOptions,
    target: NodeId,
    devices: Vec<String>,
    neighbors: NodeSet,
) -> TargetModel {
    let directions = [Direction::Write, Direction::Read]
        .into_iter()
        .filter_map(|direction| fit_direction(record, &neighbors, rule, target, direction))
        .collect();
    TargetModel { target, devices, neighbors, directions }
}

/// Returns `None` if the direction was not requested. The local cell belongs to both directions, so
/// it implies a direction only without other cells.
fn fit_direction(
    record: &Record,
    neighbors: &NodeSet,
    rule: ClassOptions,
    target: NodeId,
    direction: Direction,
) -> Option<DirectionModel> {
    let mut cells: Vec<(NodeId, &Cell)> = record
        .cells
        .iter()
        .filter(|cell| cell.target == target)
        .filter_map(|cell| Some((node_of(cell, target, direction)?, cell)))
        .collect();
    cells.sort_by_key(|(node, _)| *node);
    let remote_somewhere =
        record.cells.iter().any(|cell| cell.target == target && cell.flow.source != cell.flow.sink);
    let remote_here = cells.iter().any(|(node, _)| *node != target);
    if remote_somewhere && !remote_here {
        return None;
    }
    let local = cells.iter().find(|(node, _)| *node == target).and_then(|(_, cell)| figure(cell));
    let nodes: Vec<NodeBandwidth> =
        cells.iter().filter_map(|(node, cell)| bandwidth(*node, cell, local)).collect();
    let missing = cells.iter().filter(|(_, cell)| figure(cell).is_none()).map(|(node, _)| *node).collect();
    let points: Vec<Point> = nodes.iter().map(point).collect();
    let first = neighbors.union(&NodeSet::one(target));
    let classes = classify(&points, rule.classes, rule.level, &first);
    Some(DirectionModel { direction, rule: rule.classes, level: rule.level, classes, nodes, missing })
}

/// Returns the remote node of a cell as seen from the target, or `None` for the other direction.
fn node_of(cell: &Cell, target: NodeId, direction: Direction) -> Option<NodeId> {
    let node = match direction {
        Direction::Write => cell.flow.source,
        Direction::Read => cell.flow.sink,
    };
    (Flow::of(direction, target, node) == cell.flow).then_some(node)
}

fn figure(cell: &Cell) -> Option<f64> {
    cell.bytes_copied_per_s
        .as_ref()
        .map(|summary| summary.median)
        .filter(|value| value.is_finite() && *value > 0.0)
}

fn bandwidth(node: NodeId, cell: &Cell, local: Option<f64>) -> Option<NodeBandwidth> {
    let value = figure(cell)?;
    let summary = cell.bytes_copied_per_s.as_ref()?;
    Some(NodeBandwidth {
        node,
        bytes_copied_per_s: value,
        interval_bytes_copied_per_s: (summary.low, summary.high),
        numa_factor: local.map(|local| local / value),
        settled: cell.settled,
        modes_bytes_copied_per_s: summary.modes.iter().map(|mode| mode.median).collect(),
        mode_shares: summary.modes.iter().map(|mode| mode.share).collect(),
    })
}

fn point(node: &NodeBandwidth) -> Point {
    let (low, high) = node.interval_bytes_copied_per_s;
    Point { node: node.node, value: node.bytes_copied_per_s, low, high }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use numaio_machine::ids::{CpuId, PackageId};
    use numaio_machine::set::CpuSet;
    use numaio_machine::topology::Node;
    use numaio_machine::workload::{CopyLoop, Pages, Placement};
    use numaio_schema::{MachineSource, Method, Provenance, Summary, RECORD_SCHEMA};

    pub(crate) fn cell(source: u32, sink: u32, target: u32, value: Option<f64>) -> Cell {
        Cell {
            target: NodeId(target),
            flow: Flow { source: NodeId(source), sink: NodeId(sink) },
            placement: Placement { cpus: Default::default() },
            visits: Vec::new(),
            bytes_copied_per_s: value.and_then(|value| Summary::of(&[value; 6], None)),
            settled: value.is_some(),
            failure: value.is_none().then(|| "refused".to_owned()),
        }
    }

    pub(crate) fn record(cells: Vec<Cell>) -> Record {
        let method = Method {
            copy_loop: CopyLoop::Memcpy,
            trials: Vec::new(),
            c_library: None,
            bus_bytes_per_byte: 3,
            bytes_per_thread: Vec::new(),
            pages: Pages::Base,
            repetitions: None,
            precision: 0.02,
            time_limit_s: 1.0,
            elapsed_s: 1.0,
            seed: 1,
            rounds: 1,
        };
        Record {
            schema: RECORD_SCHEMA.to_owned(),
            provenance: Provenance {
                numaio: "0".to_owned(),
                measured_at: 0,
                machine: Default::default(),
                source: MachineSource::Simulated,
                conditions: Default::default(),
                warnings: Vec::new(),
                complete: true,
                load: Vec::new(),
            },
            method,
            cells,
        }
    }

    fn fitted(cells: Vec<Cell>) -> Model {
        fit(record(cells), &Topology::default(), ClassOptions::default())
    }

    #[test]
    fn directions_are_separate_and_share_the_local_cell() {
        let model = fitted(vec![
            cell(1, 1, 1, Some(10.0)),
            cell(0, 1, 1, Some(5.0)), // device write: source on node 0, sink on the target
            cell(1, 0, 1, Some(8.0)), // device read
        ]);
        let values: Vec<Vec<f64>> = model.targets[0]
            .directions
            .iter()
            .map(|direction| direction.nodes.iter().map(|node| node.bytes_copied_per_s).collect())
            .collect();
        assert_eq!(values, [[5.0, 10.0], [8.0, 10.0]]);
        assert_eq!(model.targets[0].directions[0].nodes[0].numa_factor, Some(2.0));
    }

    #[test]
    fn unmeasured_direction_is_omitted() {
        let model = fitted(vec![cell(1, 1, 1, Some(10.0)), cell(0, 1, 1, Some(5.0))]);
        let directions: Vec<Direction> =
            model.targets[0].directions.iter().map(|direction| direction.direction).collect();
        assert_eq!(directions, [Direction::Write]);
        let alone = fitted(vec![cell(0, 0, 0, Some(10.0))]);
        assert_eq!(alone.targets[0].directions.len(), 2, "a machine of one node has both");
    }

    #[test]
    fn unmeasured_nodes_are_missing_and_in_no_class() {
        let model = fitted(vec![cell(1, 1, 1, Some(10.0)), cell(0, 1, 1, None)]);
        let direction = &model.targets[0].directions[0];
        assert_eq!(direction.missing.to_string(), "0");
        assert_eq!(direction.classes.len(), 1);
        assert_eq!(direction.classes[0].nodes.to_string(), "1");
    }

    #[test]
    fn refit_changes_only_the_rule() {
        let cells = vec![cell(1, 1, 1, Some(10.0)), cell(0, 1, 1, Some(9.5)), cell(2, 1, 1, Some(8.0))];
        let model = fitted(cells);
        let strict = refit(model.clone(), ClassOptions { level: 0.01, ..ClassOptions::default() });
        assert_eq!(strict.targets[0].directions[0].classes.len(), 3);
        assert_eq!(strict.record, model.record);
        assert_eq!(refit(strict, ClassOptions::default()), model);
    }

    #[test]
    fn model_survives_a_json_round_trip() {
        let model = fitted(vec![cell(1, 1, 1, Some(10.0)), cell(0, 1, 1, Some(0.1 + 0.2))]);
        let text = serde_json::to_string(&model).expect("a document");
        assert_eq!(Model::from_json(&text).expect("the same document"), model);
        assert!(Model::from_json(&text.replace("model/1", "model/9")).is_err());
    }

    /// The same flow is a device write of one target and a device read of another.
    #[test]
    fn targets_keep_their_own_values() {
        let model = fitted(vec![
            cell(0, 0, 0, Some(10.0)),
            cell(0, 1, 0, Some(6.0)),
            cell(0, 1, 1, Some(5.0)),
            cell(1, 1, 1, Some(9.0)),
        ]);
        let values = |target: usize| -> Vec<f64> {
            let directions = &model.targets[target].directions;
            directions[0].nodes.iter().map(|node| node.bytes_copied_per_s).collect()
        };
        assert_eq!((values(0), values(1)), (vec![10.0, 6.0], vec![5.0, 9.0]));
        let flow = Flow { source: NodeId(0), sink: NodeId(1) };
        let found = |target| model.record.cell(NodeId(target), flow).map(|cell| cell.target);
        assert_eq!((found(0), found(1), found(2)), (Some(NodeId(0)), Some(NodeId(1)), None));
    }

    #[test]
    fn value_has_its_interval_and_settled_flag() {
        let mut unsure = cell(0, 1, 1, Some(5.0));
        let values = [5.0, 5.1, 4.9, 5.05, 1.0, 4.95, 5.02, 4.98, 9.0];
        unsure.bytes_copied_per_s = Summary::of(&values, None);
        unsure.settled = false;
        let model = fitted(vec![cell(1, 1, 1, Some(10.0)), unsure]);
        let nodes = &model.targets[0].directions[0].nodes;
        assert_eq!(nodes[0].interval_bytes_copied_per_s, (4.9, 5.1));
        assert_eq!((nodes[0].settled, nodes[1].settled), (false, true));
    }

    #[test]
    fn bimodal_value_has_the_shares_of_its_levels() {
        let mut two = cell(0, 1, 1, Some(5.0));
        two.bytes_copied_per_s = Summary::of(&[5.0, 5.1, 8.0, 8.1, 8.05], None);
        let model = fitted(vec![cell(1, 1, 1, Some(10.0)), two]);
        let node = &model.targets[0].directions[0].nodes[0];
        assert_eq!((&node.modes_bytes_copied_per_s, &node.mode_shares), (&vec![5.05, 8.05], &vec![0.4, 0.6]));
    }

    #[test]
    fn invalid_bandwidth_is_missing() {
        for value in [0.0, f64::INFINITY] {
            let model = fitted(vec![cell(1, 1, 1, Some(10.0)), cell(0, 1, 1, Some(value))]);
            assert_eq!(model.targets[0].directions[0].missing.to_string(), "0", "{value}");
        }
    }

    #[test]
    fn paper_rule_puts_the_target_and_its_package_first() {
        let node = |id: u32, package: u32| Node {
            id: NodeId(id),
            cpus: CpuSet::one(CpuId(id)),
            memory: None,
            huge_pages: Vec::new(),
            packages: vec![PackageId(package)],
            access: Vec::new(),
            memory_side_caches: Vec::new(),
            memory_allowed: true,
            memory_kind: None,
            memory_kind_source: None,
            memory_unknown: false,
        };
        let topology = Topology { nodes: vec![node(0, 0), node(1, 1), node(2, 1)], ..Topology::default() };
        let cells = vec![cell(1, 1, 1, Some(5.0)), cell(0, 1, 1, Some(9.0)), cell(2, 1, 1, Some(4.0))];
        assert_eq!(ClassOptions::default().level, 0.10);
        let rule = ClassOptions { classes: ClassRule::Paper, ..ClassOptions::default() };
        let target = fit(record(cells), &topology, rule).targets.remove(0);
        let classes: Vec<String> =
            target.directions[0].classes.iter().map(|class| class.nodes.to_string()).collect();
        assert_eq!((target.neighbors.to_string().as_str(), classes), ("2", vec!["1-2".into(), "0".into()]));
    }
}
