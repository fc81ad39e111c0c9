//! Formats placements as commands of numactl(8), which supports every plan on a recent kernel.

use super::kernel::KernelPolicies;
use numaio_machine::workload::MemoryPolicy;
use numaio_schema::{PlacementPlan, TaskPlacement};

/// Formats one line for each task: `numactl OPTIONS`; append a command.
///
/// There are no comments, so that a shell can prefix a command with the line; see
/// [`numactl_notes`].
pub fn numactl(plan: &PlacementPlan) -> String {
    let kernel = KernelPolicies::of(plan);
    plan.tasks.iter().map(|task| format!("numactl {}\n", options(task, kernel))).collect()
}

/// Returns the parts that the lines of [`numactl`] do not express: the compromises of the plan,
/// policies that its kernel lacks, and the required version of numactl.
pub fn numactl_notes(plan: &PlacementPlan) -> Vec<String> {
    let kernel = KernelPolicies::of(plan);
    let mut notes = plan.compromises.clone();
    for task in &plan.tasks {
        let note = match (task.memory.policy, task.memory.nodes.len()) {
            (MemoryPolicy::Preferred, 2..) if kernel.preferred_many => {
                "--preferred-many requires numactl 2.0.15"
            }
            (MemoryPolicy::Preferred, 2..) => {
                "kernels before Linux 5.15 prefer one node only: the first node of each task is preferred"
            }
            (MemoryPolicy::WeightedInterleave, _) if kernel.weighted_interleave => {
                "--weighted-interleave requires numactl 2.0.19"
            }
            (MemoryPolicy::WeightedInterleave, _) => {
                "kernels before Linux 6.9 have no weighted interleave: pages are interleaved evenly"
            }
            _ => continue,
        };
        if !notes.iter().any(|known| known == note) {
            notes.push(note.to_owned());
        }
    }
    notes
}

fn options(task: &TaskPlacement, kernel: KernelPolicies) -> String {
    let nodes = &task.memory.nodes;
    let first = || nodes.first().map(|node| node.to_string()).unwrap_or_default();
    let memory = match (task.memory.policy, nodes.len()) {
        (MemoryPolicy::Bind, _) => format!("--membind={nodes}"),
        (MemoryPolicy::Preferred, 2..) if kernel.preferred_many => format!("--preferred-many={nodes}"),
        (MemoryPolicy::Preferred, _) => format!("--preferred={}", first()),
        (MemoryPolicy::WeightedInterleave, _) if kernel.weighted_interleave => {
            format!("--weighted-interleave={nodes}")
        }
        (MemoryPolicy::Interleave | MemoryPolicy::WeightedInterleave, _) => format!("--interleave={nodes}"),
    };
    format!("--physcpubind={} {memory}", task.cpus)
}
