//! Which cores and which memory tasks should have that use a device.
//!
//! With a model: all nodes of the class that loses nothing against the best are equally good (Li et al., ICPP 2013,
//! section VI: spreading over a class beats crowding the local node). Without one: packages and hop distances.
//! Cores that serve the device's interrupts come last within a class, as the paper found node 6 better than 7.

mod cores;
mod memory;
mod rank;
mod share;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use cores::{FreeCore, FreeCores};
use memory::task_memory;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_machine::workload::{MemoryPlace, MemoryPolicy};
use numaio_schema::{Basis, Model, PlacementRequest, PlacementTarget, RankedNode, RejectedNode, TaskPlace};
use std::collections::BTreeMap;

/// A device that tasks are to be near.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetDevice {
    /// The handle by which it was asked for.
    pub handle: String,
    /// How the handle led to the device, step by step.
    pub chain: Vec<String>,
    /// The device.
    pub device: String,
    /// Its node; none if unknown.
    pub node: Option<NodeId>,
    /// CPUs to which its interrupts go.
    pub irq_cpus: CpuSet,
    /// Its bandwidth in bytes per second, if it is known.
    pub bytes_per_s: Option<f64>,
}

impl TargetDevice {
    /// The device in a plan of places: its share of the tasks, and its nodes, best first.
    pub(crate) fn target(&self, share: f64, basis: Basis, nodes: Vec<RankedNode>) -> PlacementTarget {
        PlacementTarget {
            handle: self.handle.clone(),
            chain: self.chain.clone(),
            device: self.device.clone(),
            node: self.node,
            irq_cpus: self.irq_cpus.clone(),
            share,
            basis,
            nodes,
        }
    }
}

/// What was chosen; the part of a plan that does not depend on who asked and when.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementChoice {
    /// The devices, with nodes as seen from each.
    pub targets: Vec<PlacementTarget>,
    /// A place for each task.
    pub tasks: Vec<TaskPlace>,
    /// Why these nodes.
    pub reasons: Vec<String>,
    /// Nodes that were not chosen.
    pub rejected: Vec<RejectedNode>,
    /// What no choice could give.
    pub compromises: Vec<String>,
}

/// Why there is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No device was named.
    #[error("no device to be near")]
    NoTarget,
    /// Nothing to place, or a task without a core.
    #[error("{0} is no number of {1}")]
    NoTasks(u32, &'static str),
    /// More cores are wanted than there are.
    #[error("{wanted} cores are needed ({tasks} times {each}), and this process may use {cores}")]
    TooManyTasks {
        /// Tasks asked for.
        tasks: u32,
        /// Cores of each.
        each: u32,
        /// Cores asked for.
        wanted: u64,
        /// Cores there are, of nodes with memory.
        cores: usize,
    },
    /// The machine has no node with both cores and memory that this process may use.
    #[error("no node has both cores and memory that this process may use")]
    NoNode,
}

/// Chooses places. Pure: the same question gives the same answer.
///
/// # Errors
/// [`PlacementError`].
pub fn choose_placement(
    topology: &Topology,
    near: &[TargetDevice],
    models: &[&Model],
    request: &PlacementRequest,
) -> Result<PlacementChoice, PlacementError> {
    let usable = usable_nodes(topology);
    if near.is_empty() {
        return Err(PlacementError::NoTarget);
    }
    if usable.is_empty() {
        return Err(PlacementError::NoNode);
    }
    let targets = targets(topology, near, models, request, &usable);
    let mut cores = FreeCores::new(topology, &usable, &targets);
    let mut tasks = match request.tasks {
        Some(tasks) => place_tasks(&mut cores, &targets, tasks, request)?,
        None => vec![place_program(&cores, &targets, request)],
    };
    let mut compromises = Vec::new();
    for task in &mut tasks {
        task.memory = task_memory(task, &targets, request, topology, &usable, &mut compromises);
    }
    compromises.dedup();
    compromises.extend(unknown(&targets));
    compromises.extend(rank::incomplete(&targets));
    let (reasons, rejected) = rank::explain(&targets, &tasks, &usable, request);
    Ok(PlacementChoice { targets, tasks, reasons, rejected, compromises })
}

/// Nodes that are as good as any for devices on a node, in both directions: the best class of a model, or the node
/// alone without one.
pub fn best_nodes(topology: &Topology, node: NodeId, models: &[&Model]) -> NodeSet {
    let usable = usable_nodes(topology);
    let (_, nodes) = rank::nodes(topology, node, models, &PlacementRequest::default(), &usable);
    nodes.iter().filter(|ranked| ranked.rank == 1).map(|ranked| ranked.node).collect()
}

/// Nodes with cores and memory that this process may use: tasks run where their buffers lie.
pub(crate) fn usable_nodes(topology: &Topology) -> NodeSet {
    let usable = topology.nodes.iter().filter(|node| node.memory.is_some() && node.memory_allowed);
    usable.filter(|node| !topology.cores(node.id).is_empty()).map(|node| node.id).collect()
}

fn targets(
    topology: &Topology,
    near: &[TargetDevice],
    models: &[&Model],
    request: &PlacementRequest,
    usable: &NodeSet,
) -> Vec<PlacementTarget> {
    let shares = share::of_targets(near);
    let ranked = near.iter().zip(shares).map(|(near, share)| {
        let (basis, nodes) = match near.node {
            Some(node) => rank::nodes(topology, node, models, request, usable),
            None => (Basis::Nothing, rank::alike(usable)),
        };
        near.target(share, basis, nodes)
    });
    ranked.collect()
}

/// A place of its own for each of several tasks, which the devices share by bandwidth.
fn place_tasks(
    cores: &mut FreeCores,
    targets: &[PlacementTarget],
    tasks: u32,
    request: &PlacementRequest,
) -> Result<Vec<TaskPlace>, PlacementError> {
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
    // In turn, so that no device takes all of the best seats that two devices share.
    for (place, target) in places.iter_mut().zip(share::interleave(&counts)) {
        let taken = cores.take(&targets[target], each, &mut quotas[target]).ok_or(too_many.clone())?;
        *place = Some(task_of((targets.len() > 1).then_some(target), &taken));
    }
    let mut places: Vec<TaskPlace> = places.into_iter().flatten().collect();
    places.sort_by_key(|place| place.target);
    Ok(places)
}

/// All that is good for a program that makes its threads itself.
fn place_program(cores: &FreeCores, targets: &[PlacementTarget], request: &PlacementRequest) -> TaskPlace {
    let nodes = rank::combine_targets(targets, request.hint);
    let best: Vec<&RankedNode> = nodes.iter().filter(|node| node.rank == nodes[0].rank).collect();
    let chosen: NodeSet = match request.spread {
        true => best.iter().map(|node| node.node).collect(),
        false => NodeSet::one(nodes[0].node),
    };
    let all = cores.of_nodes(&chosen);
    let quiet: Vec<FreeCore> = all.iter().filter(|core| !core.serves_irqs).cloned().collect();
    // Cores of interrupts stay free as long as others are left.
    let taken = if quiet.is_empty() { all } else { quiet };
    task_of(None, &taken)
}

pub(crate) fn task_of(target: Option<usize>, cores: &[FreeCore]) -> TaskPlace {
    let cpus = cores.iter().fold(CpuSet::new(), |all, core| all.union(&core.cpus));
    let cpu_nodes: NodeSet = cores.iter().map(|core| core.node).collect();
    let memory = MemoryPlace { policy: MemoryPolicy::Preferred, nodes: cpu_nodes.clone() };
    TaskPlace { target, cpus, cpu_nodes, memory }
}

/// Devices whose node is not known: any place is as good.
fn unknown(targets: &[PlacementTarget]) -> Vec<String> {
    let unknown = targets.iter().filter(|target| target.node.is_none());
    unknown
        .map(|target| format!("the node of {} is not known: every node counts alike", target.device))
        .collect()
}
