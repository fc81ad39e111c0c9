//! Memory placement of a task.

use super::rank::combine_targets;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{format_nodes, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use numaio_schema::{PlacementHint, PlacementRequest, PlacementTarget, TaskPlacement};

/// Chooses the memory nodes of a task: the nodes of its cores, to which a model's class applies.
/// The nodes of the devices if one task serves several, for bandwidth, and that yields more. All
/// nodes with memory if weights were requested.
pub(super) fn task_memory(
    task: &TaskPlacement,
    targets: &[PlacementTarget],
    request: &PlacementRequest,
    topology: &Topology,
    usable: &NodeSet,
    compromises: &mut Vec<String>,
) -> MemoryBinding {
    if request.weights {
        return MemoryBinding {
            policy: MemoryPolicy::WeightedInterleave,
            nodes: data_memory(topology, compromises),
        };
    }
    let policy = if request.strict { MemoryPolicy::Bind } else { MemoryPolicy::Preferred };
    let local = MemoryBinding { policy, nodes: task.cpu_nodes.clone() };
    let homes: NodeSet = targets.iter().filter_map(|target| target.node).collect();
    if task.target.is_some() || homes.len() < 2 || task.cpu_nodes.len() > 1 {
        return local;
    }
    let homes = homes.intersection(usable);
    let may_spread = request.hint == PlacementHint::Bandwidth && homes.len() > 1;
    match (mean_over(targets, &task.cpu_nodes), mean_over(targets, &homes)) {
        // Cores chosen for other reasons keep local memory, whatever the devices lose by it.
        (Some(own), Some(spread)) if may_spread && spread > own => {
            compromises.push(format!(
                "one task for devices on nodes {homes}: pages in turn over these nodes give {:.0} % of what each \
                 device's best node gives, node {} alone {:.0} %; with --tasks each device has its own",
                spread * 100.0,
                task.cpu_nodes,
                own * 100.0
            ));
            MemoryBinding { policy: MemoryPolicy::Interleave, nodes: homes }
        }
        (own, _) => {
            let share = own.map(|own| format!(" ({:.0} % of each device's best bandwidth)", own * 100.0));
            let is = if request.hint == PlacementHint::Cpu {
                "the least useful to all devices together"
            } else {
                "the best for all devices together"
            };
            compromises.push(format!(
                "one task for devices on nodes {homes}: node {} is {is}{}; with --tasks each device has its own",
                task.cpu_nodes,
                share.unwrap_or_default()
            ));
            local
        }
    }
}

/// Returns the nodes with usable memory, even without CPUs: HBM and CXL add their own bandwidth.
/// Memory of GPUs is left to the GPUs' programs, with a note.
fn data_memory(topology: &Topology, compromises: &mut Vec<String>) -> NodeSet {
    let allowed = |id: NodeId| topology.node(id).is_some_and(|node| node.memory_allowed);
    let usable: NodeSet = topology.data_nodes().iter().filter(|node| allowed(*node)).collect();
    let all: NodeSet = topology.memory_nodes().iter().filter(|node| allowed(*node)).collect();
    let of_gpus = all.difference(&usable);
    if !of_gpus.is_empty() {
        compromises.push(format!("{} memory of GPUs: no pages are placed there", are(&of_gpus)));
    }
    usable
}

fn are(nodes: &NodeSet) -> String {
    format!("{} {}", format_nodes(nodes), if nodes.len() == 1 { "is" } else { "are" })
}

/// Returns the mean share of each device's best bandwidth with buffers spread evenly over nodes, or
/// `None` if unknown.
fn mean_over(targets: &[PlacementTarget], nodes: &NodeSet) -> Option<f64> {
    let seen = combine_targets(targets, PlacementHint::Bandwidth);
    let shares: Option<Vec<f64>> =
        nodes.iter().map(|node| seen.iter().find(|ranked| ranked.node == node)?.of_best).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    // Pages alternate between nodes: slow nodes take the longer part of the time.
    Some(shares.len() as f64 / shares.iter().map(|share| 1.0 / share).sum::<f64>())
}
