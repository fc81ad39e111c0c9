//! Formats placements as commands of numactl(8), which supports every plan.

use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlacement};

/// Formats one line for each task: `numactl OPTIONS`; append a command.
///
/// There are no comments, so that a shell can prefix a command with the line.
pub fn numactl(plan: &PlacementPlan) -> String {
    plan.tasks.iter().map(|task| format!("numactl {}\n", options(task))).collect()
}

fn options(task: &TaskPlacement) -> String {
    let nodes = &task.memory.nodes;
    let memory = match (task.memory.policy, nodes.len()) {
        (MemoryPolicy::Bind, _) => format!("--membind={nodes}"),
        (MemoryPolicy::Preferred, 0 | 1) => format!("--preferred={nodes}"),
        (MemoryPolicy::Preferred, _) => format!("--preferred-many={nodes}"),
        (MemoryPolicy::Interleave, _) => format!("--interleave={nodes}"),
        (MemoryPolicy::WeightedInterleave, _) => format!("--weighted-interleave={nodes}"),
    };
    format!("--physcpubind={} {memory}", task.cpus)
}
