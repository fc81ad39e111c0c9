//! Representative nodes of the classes of a model.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{Class, ClassRepresentative, DirectionModel, Model};

/// Returns the representative node of each class of the target's model and direction: the target
/// itself, or the node nearest to the mean of its class (Li et al., ICPP 2013: one node of each
/// class represents the others). Only nodes of `measurable` count. Empty without a model, or for
/// directions whose model lacks one of these nodes.
pub fn one_per_class(
    model: &Model,
    target: NodeId,
    measurable: &NodeSet,
    directions: &[Direction],
) -> Vec<ClassRepresentative> {
    let Some(found) = model.targets.iter().find(|found| found.target == target) else { return Vec::new() };
    let wanted = found.directions.iter().filter(|found| directions.contains(&found.direction));
    wanted.flat_map(|direction| of_direction(direction, target, measurable)).collect()
}

fn of_direction(model: &DirectionModel, target: NodeId, measurable: &NodeSet) -> Vec<ClassRepresentative> {
    let classed = |node: NodeId| model.classes.iter().any(|class| class.nodes.contains(node));
    if !measurable.iter().all(classed) {
        return Vec::new();
    }
    let of_class = |class: &Class| {
        let nodes: Vec<NodeId> = class.nodes.iter().filter(|node| measurable.contains(*node)).collect();
        let by = match nodes.contains(&target) {
            true => target,
            false => nearest_to_mean(model, class, &nodes)?,
        };
        Some(ClassRepresentative { direction: model.direction, node: by, nodes })
    };
    model.classes.iter().filter_map(of_class).collect()
}

fn nearest_to_mean(model: &DirectionModel, class: &Class, nodes: &[NodeId]) -> Option<NodeId> {
    let distance = |node: &NodeId| {
        let found = model.nodes.iter().find(|found| found.node == *node);
        found.map_or(f64::INFINITY, |found| (found.bytes_copied_per_s - class.mean_bytes_copied_per_s).abs())
    };
    nodes.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}
