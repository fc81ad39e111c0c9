//! From a record of measurements to a model.

use crate::classes::{classify, Point};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{Direction, Flow};
use numaio_schema::{
    Cell, ClassRule, DirectionModel, Model, NodeBandwidth, Record, TargetModel, MODEL_SCHEMA,
};

/// How to class nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The rule.
    pub classes: ClassRule,
    /// Share of a class's best by which a member may lie below it.
    pub level: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { classes: ClassRule::default(), level: 0.10 }
    }
}

/// Fits the model of every target and direction in the record. `topology` tells packages and devices.
pub fn fit(record: Record, topology: &Topology, rule: Rule) -> Model {
    let targets: NodeSet = record.cells.iter().map(|cell| cell.target).collect();
    let targets = targets.iter().map(|target| fit_target(&record, topology, rule, target)).collect();
    Model { schema: MODEL_SCHEMA.to_owned(), targets, record }
}

fn fit_target(record: &Record, topology: &Topology, rule: Rule, target: NodeId) -> TargetModel {
    let neighbours = topology.neighbours(target);
    let directions = [Direction::Write, Direction::Read]
        .into_iter()
        .filter_map(|direction| fit_direction(record, &neighbours, rule, target, direction))
        .collect();
    let devices = topology.devices_on(target).map(|device| device.name()).collect();
    TargetModel { target, devices, neighbours, directions }
}

/// None if the direction was not asked for. The local cell belongs to both directions, so it alone asks for
/// a direction only where no other cell does.
fn fit_direction(
    record: &Record,
    neighbours: &NodeSet,
    rule: Rule,
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
    let first = neighbours.union(&NodeSet::one(target));
    let classes = classify(&points, rule.classes, rule.level, &first);
    Some(DirectionModel { direction, rule: rule.classes, level: rule.level, classes, nodes, missing })
}

/// The node whose cell this is, seen from the target in a direction; none if it belongs to the other one.
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
    })
}

fn point(node: &NodeBandwidth) -> Point {
    let (low, high) = node.interval_bytes_copied_per_s;
    Point { node: node.node, value: node.bytes_copied_per_s, low, high }
}
