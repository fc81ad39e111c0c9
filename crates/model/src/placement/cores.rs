//! Free cores and their assignment to tasks.

use super::share::divide;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Cache, CoreKind, Topology};
use numaio_schema::{CoreOrder, PlacementRequest, PlacementTarget};
use std::collections::BTreeMap;

/// A core: all its hardware threads that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FreeCore {
    pub node: NodeId,
    pub cpus: CpuSet,
    /// Whether it handles interrupts of a device near which tasks are placed.
    pub serves_irqs: bool,
    /// Whether the kernel leaves it to special programs.
    pub isolated: bool,
    /// Rank of its kind, 0 for the kind that comes first.
    pub kind: u32,
    /// Its last-level cache, by number within the node; 0 if caches are unknown.
    pub cache: usize,
}

/// All free cores.
pub(crate) struct FreeCores {
    free: Vec<FreeCore>,
    /// Whether the cores of a task share a last-level cache.
    by_cache: bool,
}

impl FreeCores {
    /// Collects the usable cores of some nodes.
    pub fn new(
        topology: &Topology,
        nodes: &NodeSet,
        targets: &[PlacementTarget],
        request: &PlacementRequest,
    ) -> Self {
        let irqs = targets.iter().fold(CpuSet::new(), |all, target| all.union(&target.irq_cpus));
        let core = |node: NodeId, caches: &[&Cache], cpu: CpuId| {
            let siblings = topology.cpu(cpu).map(|cpu| cpu.siblings.clone()).unwrap_or_default();
            let mut cpus = siblings.intersection(&topology.usable_cpus(node));
            cpus.insert(cpu);
            let serves_irqs = !cpus.intersection(&irqs).is_empty();
            let isolated = topology.cpu(cpu).is_some_and(|cpu| cpu.isolated);
            let kind = kind_rank(topology.cpu(cpu).and_then(|cpu| cpu.core_kind), request.core_order);
            let cache = caches.iter().position(|cache| cache.cpus.contains(cpu)).unwrap_or(0);
            FreeCore { node, cpus, serves_irqs, isolated, kind, cache }
        };
        let of_node = |node: NodeId| {
            let caches =
                topology.node(node).map(|node| topology.cache_domains(&node.cpus)).unwrap_or_default();
            topology.cores(node).iter().map(|cpu| core(node, &caches, cpu)).collect::<Vec<_>>()
        };
        Self { free: nodes.iter().flat_map(of_node).collect(), by_cache: request.by_cache }
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
    /// on one node if a node of the best class has enough of them; on request also in one
    /// last-level cache, if one has enough.
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
        let node_of = |core: &FreeCore| (core.node, 0);
        let cache_of = |core: &FreeCore| (core.node, core.cache);
        // Indices of the first group, in order of its best core, that has enough cores.
        let group = |key: &dyn Fn(&FreeCore) -> (NodeId, usize)| {
            let of = |wanted: (NodeId, usize)| -> Vec<usize> {
                let indices = order.iter().map(|(_, index)| *index);
                indices.filter(|index| key(&self.free[*index]) == wanted).collect()
            };
            let peers = order.iter().filter(|(core_rank, _)| core_rank.rank == best.rank);
            peers.map(|(_, index)| of(key(&self.free[*index]))).find(|group| group.len() >= cores)
        };
        let in_cache = if self.by_cache { group(&cache_of) } else { None };
        let grouped = in_cache.or_else(|| group(&node_of));
        let mut taken = grouped.unwrap_or_else(|| order.iter().map(|(_, index)| *index).collect());
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
    isolated: bool,
    kind: u32,
    /// Whether its node has used up its quota of a spread class.
    over_quota: bool,
    serves_irqs: bool,
    /// Index of its node in the target's order.
    node: usize,
}

fn core_rank(core: &FreeCore, target: &PlacementTarget, quotas: &BTreeMap<NodeId, u32>) -> Option<CoreRank> {
    let node = target.nodes.iter().position(|ranked| ranked.node == core.node)?;
    let over_quota = quotas.get(&core.node) == Some(&0);
    Some(CoreRank {
        rank: target.nodes[node].rank,
        isolated: core.isolated,
        kind: core.kind,
        over_quota,
        serves_irqs: core.serves_irqs,
        node,
    })
}

fn kind_rank(kind: Option<CoreKind>, order: CoreOrder) -> u32 {
    match (kind, order) {
        (None, _) => 0,
        (Some(kind), CoreOrder::Fast) => kind.rank,
        (Some(kind), CoreOrder::Efficient) => u32::MAX - kind.rank,
    }
}
