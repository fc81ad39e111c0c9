//! Formats a model as the listing printed by Li et al. (ICPP 2013).

use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model, Record, TargetModel};

/// Lists the classes of each target in the paper's format, with the header of Listing 4.1 of the
/// dissertation and an empty line between targets:
///
/// ```text
/// 8 nodes available
/// 32 CPUs available
/// Number of element in tested matrix = 21845333
/// Required memory size=524288000
/// Number of Threads used in this profiling = 4
/// Node 7 IO model:
/// CPU Centric levels :
///     Class1: 7 6
///     Class2: 0 1 4 5
/// Memory Centric levels :
///     Class1: 7 6
/// ```
///
/// CPU-centric means device writes, memory-centric device reads. Directions that were not measured
/// are omitted, and without a topology the numbers of nodes and CPUs, which models lack. Within a
/// class the target comes first, then the other nodes by id.
pub fn model_listing(model: &Model, topology: Option<&Topology>) -> String {
    let machine = topology.map_or_else(String::new, |topology| {
        format!("{} nodes available\n{} CPUs available\n", topology.nodes.len(), topology.cpus.len())
    });
    let listing = |target: &TargetModel| {
        format!("{machine}{}{}", method_lines(&model.record, target.target), target_listing(target))
    };
    model.targets.iter().map(listing).collect::<Vec<_>>().join("\n")
}

/// Lists the size of all buffers of a target in bytes, that of a matrix in elements, and the
/// number of threads. The paper's buffers are three matrices of elements of 8 bytes; numaio's are a
/// source and a sink of each thread.
fn method_lines(record: &Record, target: NodeId) -> String {
    let cell = record.cells.iter().find(|cell| cell.target == target);
    let buffer = record.method.bytes_per_thread.iter().find(|(node, _)| *node == target);
    let (Some(cell), Some((_, buffer))) = (cell, buffer) else { return String::new() };
    let threads = cell.placement.cpus.len();
    let bytes = 2 * buffer * threads as u64;
    format!(
        "Number of element in tested matrix = {}\nRequired memory size={bytes}\n\
         Number of Threads used in this profiling = {threads}\n",
        bytes / 24
    )
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
