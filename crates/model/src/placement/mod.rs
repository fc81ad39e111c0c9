//! Placement of tasks that use devices: cores and memory.
//!
//! With a model, all nodes of the class without loss against the best are equally good (Li et al.,
//! ICPP 2013, section VI: spreading over a class beats crowding the local node). Without a model,
//! scheduling factors decide, else packages and hop distances. Cores that handle the device's
//! interrupts come last within a class, as the paper found node 6 better than 7.

mod cores;
mod latency;
mod memory;
mod notes;
mod rank;
mod reasons;
mod share;
mod sources;
mod target_device;
#[cfg(test)]
pub(crate) mod tests;

use crate::device_bandwidth::BandwidthSubject;
pub(crate) use cores::{FreeCore, FreeCores};
use memory::task_memory;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{MemoryBinding, MemoryPolicy};
use numaio_schema::{PlacementRequest, PlacementTarget, RankedNode, RejectedNode, TaskPlacement};
pub(crate) use rank::Ranking;
pub use sources::RankingSources;
use std::collections::BTreeMap;
pub use target_device::TargetDevice;

/// A chosen placement: the part of a plan that does not depend on the user and the time.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementChoice {
    /// The devices, with nodes ranked for each.
    pub targets: Vec<PlacementTarget>,
    /// Placement of each task.
    pub tasks: Vec<TaskPlacement>,
    /// Reasons for the chosen nodes.
    pub reasons: Vec<String>,
    /// Nodes that were not chosen, with reasons.
    pub rejected: Vec<RejectedNode>,
    /// Compromises of the choice.
    pub compromises: Vec<String>,
}

/// Error of choosing a placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No device was named.
    #[error("no device to place tasks near")]
    NoTarget,
    /// The number of tasks or cores is 0.
    #[error("invalid number of {1}: expected at least 1, got {0}")]
    NoTasks(u32, &'static str),
    /// More cores are requested than available.
    #[error("{wanted} cores are needed ({tasks} times {each}), and this process may use {cores}")]
    TooManyTasks {
        /// Number of tasks.
        tasks: u32,
        /// Cores per task.
        each: u32,
        /// Cores requested.
        wanted: u64,
        /// Usable cores on nodes with memory.
        cores: usize,
    },
    /// No node has both cores and memory that this process may use.
    #[error("no node has both cores and memory that this process may use")]
    NoNode,
}

/// Chooses a placement, deterministically.
///
/// # Errors
/// [`PlacementError`].
pub fn choose_placement<'a>(
    topology: &Topology,
    near: &[TargetDevice],
    sources: impl Into<RankingSources<'a>>,
    request: &PlacementRequest,
) -> Result<PlacementChoice, PlacementError> {
    let sources = sources.into();
    let usable = usable_nodes(topology);
    if near.is_empty() {
        return Err(PlacementError::NoTarget);
    }
    if usable.is_empty() {
        return Err(PlacementError::NoNode);
    }
    let with_node = |near| with_inferred_node(topology, near, sources);
    let (near, inferred): (Vec<TargetDevice>, Vec<Option<String>>) = near.iter().map(with_node).unzip();
    let targets = targets(topology, &near, sources, request, &usable);
    let mut cores = FreeCores::new(topology, &usable, &targets, request);
    let mut tasks = match request.tasks {
        Some(tasks) => place_tasks(&mut cores, &targets, tasks, request)?,
        None => vec![place_program(&cores, &targets, request)],
    };
    let mut compromises = Vec::new();
    for task in &mut tasks {
        task.memory = task_memory(task, &targets, request, topology, &usable, &mut compromises);
    }
    compromises.dedup();
    compromises.extend(inferred.into_iter().flatten());
    compromises.extend(unknown(&targets));
    compromises.extend(share::unknown(&near));
    compromises.extend(notes::of_tasks(topology, &targets, &tasks, request));
    compromises.extend(notes::of_models(sources.models));
    compromises.extend(reasons::incomplete(&targets));
    let (reasons, rejected) = reasons::explain(&targets, &tasks, &usable, request);
    Ok(PlacementChoice { targets, tasks, reasons, rejected, compromises })
}

/// Returns a device with its node, inferred from measured latency if firmware states none, and a
/// note about that.
fn with_inferred_node(
    topology: &Topology,
    near: &TargetDevice,
    sources: RankingSources,
) -> (TargetDevice, Option<String>) {
    let device = near.subject(topology).device.filter(|_| near.node.is_none());
    let inferred = device.and_then(|device| latency::inferred_node(topology, device, sources.latencies));
    let Some((node, evidence)) = inferred else { return (near.clone(), None) };
    let note = format!("{}: firmware states no node; node {node} is inferred: {evidence}", near.device);
    let mut chain = near.chain.clone();
    chain.push(note.clone());
    (TargetDevice { node: Some(node), chain, ..near.clone() }, Some(note))
}

/// Returns the best nodes for a device in both directions: its best class of bandwidth or of
/// scheduling factors, or its node alone without both.
pub fn best_nodes<'a>(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    sources: impl Into<RankingSources<'a>>,
) -> NodeSet {
    let ranking = rank_nodes(topology, subject, sources);
    ranking.nodes.iter().filter(|ranked| ranked.rank == 1).map(|ranked| ranked.node).collect()
}

/// Returns the nodes with usable cores and memory: tasks run where their buffers are.
pub(crate) fn usable_nodes(topology: &Topology) -> NodeSet {
    let usable = topology.nodes.iter().filter(|node| node.has_memory() && node.memory_allowed);
    usable.filter(|node| !topology.cores(node.id).is_empty()).map(|node| node.id).collect()
}

/// Ranks the usable nodes for a device in both directions; equally for an unknown node.
pub(crate) fn rank_nodes<'a>(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    sources: impl Into<RankingSources<'a>>,
) -> Ranking {
    rank_nodes_among(topology, subject, sources, &usable_nodes(topology))
}

/// Ranks some nodes for a device in both directions; equally for an unknown node.
pub(crate) fn rank_nodes_among<'a>(
    topology: &Topology,
    subject: BandwidthSubject<'_>,
    sources: impl Into<RankingSources<'a>>,
    nodes: &NodeSet,
) -> Ranking {
    rank::nodes(topology, subject, sources.into(), &PlacementRequest::default(), nodes)
}

/// Ranks the nodes for each device, all of which transfer at the same time.
fn targets(
    topology: &Topology,
    near: &[TargetDevice],
    sources: RankingSources,
    request: &PlacementRequest,
    usable: &NodeSet,
) -> Vec<PlacementTarget> {
    let shares = share::of_targets(near);
    let all: Vec<&Device> = near.iter().filter_map(|near| near.subject(topology).device).collect();
    let beside: Vec<&Device> = sources.beside.iter().chain(&all).copied().collect();
    let sources = RankingSources { beside: &beside, ..sources };
    let ranked = near.iter().zip(shares).map(|(near, share)| {
        near.target(share, rank::nodes(topology, near.subject(topology), sources, request, usable))
    });
    ranked.collect()
}

/// Places several tasks; the devices share them by bandwidth.
fn place_tasks(
    cores: &mut FreeCores,
    targets: &[PlacementTarget],
    tasks: u32,
    request: &PlacementRequest,
) -> Result<Vec<TaskPlacement>, PlacementError> {
    let each = request.cores_per_task;
    for (number, what) in [(tasks, "tasks"), (each, "cores")] {
        if number == 0 {
            return Err(PlacementError::NoTasks(number, what));
        }
    }
    let (wanted, available) = (u64::from(tasks) * u64::from(each), cores.free());
    let too_many = PlacementError::TooManyTasks { tasks, each, wanted, cores: available };
    if wanted > available as u64 {
        return Err(too_many);
    }
    let weights: Vec<f64> = targets.iter().map(|target| target.share).collect();
    let counts = share::divide(tasks, &weights);
    let mut places = vec![None; tasks as usize];
    let mut quotas: Vec<BTreeMap<NodeId, u32>> = targets
        .iter()
        .zip(&counts)
        .map(|(target, count)| cores.quotas(target, *count * each, request.spread))
        .collect();
    // Alternating, so that no device takes all the best cores that two devices share.
    for (place, target) in places.iter_mut().zip(share::interleave(&counts)) {
        let taken = cores.take(&targets[target], each, &mut quotas[target]).ok_or(too_many.clone())?;
        *place = Some(task_of((targets.len() > 1).then_some(target), &taken));
    }
    let mut places: Vec<TaskPlacement> = places.into_iter().flatten().collect();
    places.sort_by_key(|place| place.target);
    Ok(places)
}

/// Returns all cores of the best nodes, for a program that creates its own threads.
fn place_program(
    cores: &FreeCores,
    targets: &[PlacementTarget],
    request: &PlacementRequest,
) -> TaskPlacement {
    let nodes = rank::combine_targets(targets, request.hint);
    let best: Vec<&RankedNode> = nodes.iter().filter(|node| node.rank == nodes[0].rank).collect();
    let chosen: NodeSet = match request.spread {
        true => best.iter().map(|node| node.node).collect(),
        false => NodeSet::one(nodes[0].node),
    };
    // Interrupt-handling cores included: without a number of tasks there is no reason to leave the
    // program fewer cores than its node has. With one, quiet cores come first.
    let all = cores.of_nodes(&chosen);
    // The scheduler does not balance threads over isolated cores.
    let balanced: Vec<FreeCore> = all.iter().filter(|core| !core.isolated).cloned().collect();
    let taken = if balanced.is_empty() { all } else { balanced };
    task_of(None, &if request.by_cache { largest_cache(taken) } else { taken })
}

/// Returns the cores of the last-level cache that has most of them, the first of equal ones.
fn largest_cache(cores: Vec<FreeCore>) -> Vec<FreeCore> {
    let mut groups: BTreeMap<(NodeId, usize), Vec<FreeCore>> = BTreeMap::new();
    for core in cores {
        groups.entry((core.node, core.cache)).or_default().push(core);
    }
    let most = groups.values().map(Vec::len).max();
    groups.into_values().find(|group| Some(group.len()) == most).unwrap_or_default()
}

pub(crate) fn task_of(target: Option<usize>, cores: &[FreeCore]) -> TaskPlacement {
    let cpus = cores.iter().fold(CpuSet::new(), |all, core| all.union(&core.cpus));
    let cpu_nodes: NodeSet = cores.iter().map(|core| core.node).collect();
    let memory = MemoryBinding { policy: MemoryPolicy::Preferred, nodes: cpu_nodes.clone() };
    TaskPlacement { target, cpus, cpu_nodes, memory }
}

/// Returns a compromise for each device without known node, for which every node is equal.
fn unknown(targets: &[PlacementTarget]) -> Vec<String> {
    let unknown = targets.iter().filter(|target| target.node.is_none());
    unknown
        .map(|target| format!("the node of {} is unknown: all nodes rank equally", target.device))
        .collect()
}
