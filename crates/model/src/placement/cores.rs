//! Free cores and their assignment to tasks.

use super::share::divide;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Topology;
use numaio_schema::PlacementTarget;
use std::collections::BTreeMap;

/// A core: all its hardware threads that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FreeCore {
    pub node: NodeId,
    pub cpus: CpuSet,
    /// Whether it handles interrupts of a device near which tasks are placed.
    pub serves_irqs: bool,
}

/// All free cores.
pub(crate) struct FreeCores {
    free: Vec<FreeCore>,
}

impl FreeCores {
    /// Collects the usable cores of some nodes.
    pub fn new(topology: &Topology, nodes: &NodeSet, targets: &[PlacementTarget]) -> Self {
        let irqs = targets.iter().fold(CpuSet::new(), |all, target| all.union(&target.irq_cpus));
        let core = |node: NodeId, cpu| {
            let siblings = topology.cpu(cpu).map(|cpu| cpu.siblings.clone()).unwrap_or_default();
            let mut cpus = siblings.intersection(&topology.usable_cpus(node));
            cpus.insert(cpu);
            let serves_irqs = !cpus.intersection(&irqs).is_empty();
            FreeCore { node, cpus, serves_irqs }
        };
        let of_node =
            |node: NodeId| topology.cores(node).iter().map(|cpu| core(node, cpu)).collect::<Vec<_>>();
        Self { free: nodes.iter().flat_map(of_node).collect() }
    }

    /// Returns the number of free cores.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns the free cores of some nodes.
    pub fn of_nodes(&self, nodes: &NodeSet) -> Vec<FreeCore> {
        self.free.iter().filter(|core| nodes.contains(core.node)).cloned().collect()
    }

    /// Divides `wanted` cores among the nodes of the best class in proportion to their free cores;
    /// empty without `spread`.
    pub fn quotas(&self, target: &PlacementTarget, wanted: u32, spread: bool) -> BTreeMap<NodeId, u32> {
        let Some(best) = target.nodes.first().filter(|_| spread) else { return BTreeMap::new() };
        let nodes: Vec<NodeId> =
            target.nodes.iter().filter(|node| node.rank == best.rank).map(|node| node.node).collect();
        let free = |node: &NodeId| self.free.iter().filter(|core| core.node == *node).count() as f64;
        let weights: Vec<f64> = nodes.iter().map(free).collect();
        nodes.into_iter().zip(divide(wanted, &weights)).collect()
    }

    /// Takes the best cores for one task of a target, or `None` if too few are free. The cores are
    /// on one node if a node of the best class has enough of them.
    pub fn take(
        &mut self,
        target: &PlacementTarget,
        cores: u32,
        quotas: &mut BTreeMap<NodeId, u32>,
    ) -> Option<Vec<FreeCore>> {
        let cores = cores as usize;
        let mut order: Vec<(CoreRank, usize)> = (0..self.free.len())
            .filter_map(|index| Some((core_rank(&self.free[index], target, quotas)?, index)))
            .collect();
        order.sort();
        let (best, _) = *order.first()?;
        let fits =
            |node: NodeId| order.iter().filter(|(_, index)| self.free[*index].node == node).count() >= cores;
        let peers = order.iter().filter(|(core_rank, _)| core_rank.rank == best.rank);
        let whole = peers.map(|(_, index)| self.free[*index].node).find(|node| fits(*node));
        let mut taken: Vec<usize> = match whole {
            Some(node) => {
                order.iter().map(|(_, index)| *index).filter(|index| self.free[*index].node == node).collect()
            }
            None => order.iter().map(|(_, index)| *index).collect(),
        };
        taken.truncate(cores);
        (taken.len() == cores).then_some(())?;
        taken.sort_unstable();
        let cores: Vec<FreeCore> = taken.into_iter().rev().map(|index| self.free.remove(index)).collect();
        for core in &cores {
            if let Some(quota) = quotas.get_mut(&core.node) {
                *quota = quota.saturating_sub(1);
            }
        }
        Some(cores)
    }
}

/// Rank of a core for a target; the least is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CoreRank {
    rank: u32,
    /// Whether its node has used up its quota of a spread class.
    over_quota: bool,
    serves_irqs: bool,
    /// Index of its node in the target's order.
    node: usize,
}

fn core_rank(core: &FreeCore, target: &PlacementTarget, quotas: &BTreeMap<NodeId, u32>) -> Option<CoreRank> {
    let node = target.nodes.iter().position(|ranked| ranked.node == core.node)?;
    let over_quota = quotas.get(&core.node) == Some(&0);
    Some(CoreRank { rank: target.nodes[node].rank, over_quota, serves_irqs: core.serves_irqs, node })
}
