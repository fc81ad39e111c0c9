//! `--plan`: the threads of a plan for a side of the transfer.

use super::worker_group::GroupPlacement;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_schema::{PlacementPlan, Plan, PlannedPool, PoolSide, Transfer};
use std::collections::BTreeMap;

/// A plan of one side that is valid on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SidePlan {
    plan: Plan,
    placement: PlacementPlan,
}

impl SidePlan {
    /// Returns a plan with its placement on this machine.
    pub fn new(plan: Plan, placement: PlacementPlan) -> Self {
        Self { plan, placement }
    }

    /// Returns the side of the plan: the source sends, the sink receives.
    pub fn side(&self) -> Side {
        match self.plan.problem.direction {
            Transfer::Send => Side::Source,
            Transfer::Receive => Side::Sink,
        }
    }

    /// Returns a group of storage threads for each memory node, and a note for the user.
    ///
    /// If the plan names the devices of the side, only their pools count.
    pub fn worker_groups(
        &self,
        topology: &Topology,
        devices: &[&Device],
    ) -> (Vec<GroupPlacement>, Option<String>) {
        let (threads, note) = self.threads(PoolSide::Storage, devices);
        let group = |(node, threads)| {
            let own = self.cpus(topology, node);
            GroupPlacement {
                threads,
                node: Some(node),
                cpus: Some(cores(topology, &own, threads)),
                device: None,
            }
        };
        (threads.into_iter().map(group).collect(), note)
    }

    /// Returns the CPUs for network threads on each memory node that has some, and a note for the
    /// user.
    ///
    /// CPUs that are not `taken` are preferred.
    pub fn network(
        &self,
        topology: &Topology,
        devices: &[&Device],
        taken: &CpuSet,
    ) -> (Vec<CpuSet>, Option<String>) {
        let (threads, note) = self.threads(PoolSide::Network, devices);
        let place = |node| {
            let own = self.cpus(topology, node);
            let free = own.difference(taken);
            if free.is_empty() {
                own
            } else {
                free
            }
        };
        (threads.into_keys().map(place).filter(|cpus| !cpus.is_empty()).collect(), note)
    }

    /// Returns the plan's CPUs on a node.
    fn cpus(&self, topology: &Topology, node: NodeId) -> CpuSet {
        let all = self.placement.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
        all.intersection(&topology.usable_cpus(node))
    }

    /// Returns the threads on each memory node that serve some devices; all of that side if the
    /// plan does not name them.
    fn threads(&self, side: PoolSide, devices: &[&Device]) -> (BTreeMap<NodeId, usize>, Option<String>) {
        let pools = self.plan.pools();
        let pools: Vec<PlannedPool> =
            pools.fills.into_iter().chain(pools.drains).filter(|pool| pool.side == side).collect();
        let serves = |pool: &&PlannedPool| {
            pool.devices.iter().any(|name| devices.iter().any(|device| device.has_name(name)))
        };
        let own: Vec<&PlannedPool> = pools.iter().filter(serves).collect();
        let note = (own.is_empty() && !devices.is_empty()).then(|| {
            let named: Vec<&str> = pools.iter().flat_map(|pool| &pool.devices).map(String::as_str).collect();
            let here: Vec<String> = devices.iter().map(|device| device.name()).collect();
            let what = match side {
                PoolSide::Storage => "the files are on",
                PoolSide::Network => "data goes through",
            };
            format!("the plan is for {}, but {what} {}", named.join(", "), here.join(", "))
        });
        let mut threads = BTreeMap::new();
        for pool in if own.is_empty() { pools.iter().collect() } else { own } {
            *threads.entry(pool.path.memory_node).or_insert(0) += pool.threads as usize;
        }
        (threads, note)
    }
}

/// Returns the first cores of some CPUs, one per thread: the other cores serve the network.
fn cores(topology: &Topology, cpus: &CpuSet, threads: usize) -> CpuSet {
    let mut taken = CpuSet::new();
    let mut left = threads;
    for cpu in cpus.iter() {
        if taken.contains(cpu) {
            continue;
        }
        if left == 0 {
            break;
        }
        left -= 1;
        let siblings = topology.cpu(cpu).map(|cpu| cpu.siblings.clone()).unwrap_or_default();
        taken = taken.union(&siblings.intersection(cpus));
        taken.insert(cpu);
    }
    taken
}
