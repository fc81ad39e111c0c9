//! Formats a model as the listing printed by Li et al. (ICPP 2013).

use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model, TargetModel};

/// Lists the classes of each target in the paper's format, with an empty line between targets:
///
/// ```text
/// Node 7 IO model:
/// CPU Centric levels :
///     Class1: 7 6
///     Class2: 0 1 4 5
/// Memory Centric levels :
///     Class1: 7 6
/// ```
///
/// CPU-centric means device writes, memory-centric device reads. Directions that were not measured
/// are omitted. Within a class the target comes first, then the other nodes by id.
pub fn model_listing(model: &Model) -> String {
    model.targets.iter().map(target_listing).collect::<Vec<_>>().join("\n")
}

fn target_listing(target: &TargetModel) -> String {
    let views = [(Direction::Write, "CPU"), (Direction::Read, "Memory")];
    let levels = views.iter().flat_map(|(direction, view)| {
        let measured = target.directions.iter().filter(move |model| model.direction == *direction);
        measured.map(move |model| format!("{view} Centric levels :\n{}", class_lines(model, target.target)))
    });
    format!("Node {} IO model:\n{}", target.target, levels.collect::<String>())
}

fn class_lines(model: &DirectionModel, target: NodeId) -> String {
    let line =
        |class: &numaio_schema::Class| format!("    Class{}: {}\n", class.rank, class_members(class, target));
    model.classes.iter().map(line).collect()
}

/// Lists the nodes of a class, the target first: `7 6`.
pub(crate) fn class_members(class: &numaio_schema::Class, target: NodeId) -> String {
    let mut nodes: Vec<NodeId> = class.nodes.iter().collect();
    nodes.sort_by_key(|node| (*node != target, *node));
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
