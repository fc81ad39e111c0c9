//! `--plan`: which threads of a plan do the work of a side.

use super::request::TransferRequest;
use super::side_placement::GroupPlacement;
use crate::args::Common;
use crate::commands::placing;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::discover::discover;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_schema::{PlacementPlan, Plan, PlannedPool, PoolSide, Transfer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A plan of a transfer that holds on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SidePlan {
    plan: Plan,
    placement: PlacementPlan,
}

/// Reads plans, and says what they compromise on.
pub fn read(common: &Common, paths: &[PathBuf]) -> Result<Vec<SidePlan>, Failure> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let mut all: Vec<SidePlan> = Vec::new();
    for path in paths {
        let (plan, placement) = placing::read_transfer(&machine, &topology, path)?;
        placement.compromises.iter().for_each(|compromise| output::remark(common, compromise));
        let planned = SidePlan { plan, placement };
        if all.iter().any(|other| other.side() == planned.side()) {
            return Err(Failure::file(path, "it is a second plan for the same side")
                .hint("give one plan to send and one to receive (numaio plan --receive)"));
        }
        all.push(planned);
    }
    Ok(all)
}

/// The plan for a side, if that is here and has one.
pub fn find(request: &TransferRequest, side: Side) -> Option<&SidePlan> {
    request.local.iter().flat_map(|here| &here.plans).find(|planned| planned.side() == side)
}

impl SidePlan {
    /// The side that it is for: a plan to send is the source's, one to receive the sink's.
    fn side(&self) -> Side {
        match self.plan.problem.direction {
            Transfer::Send => Side::Source,
            Transfer::Receive => Side::Sink,
        }
    }

    /// The threads that read or write storage, one crew for each memory node, and what is to be said of them. Of a plan
    /// that names the devices of the side only the pools of these count.
    pub fn worker_groups(&self, topology: &Topology, devices: &[&Device]) -> (Vec<GroupPlacement>, Option<String>) {
        let (threads, note) = self.threads(PoolSide::Storage, devices);
        let crew = |(node, threads)| {
            let own = self.cpus(topology, node);
            GroupPlacement { threads, node: Some(node), cpus: Some(cores(topology, &own, threads)) }
        };
        (threads.into_iter().map(crew).collect(), note)
    }

    /// CPUs for threads that serve the network, for each memory node that has some: those that are not `taken`, as long
    /// as there are others. What is to be said of them, and which pools count, is as for storage.
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

    /// CPUs of a node that the plan has a use for.
    fn cpus(&self, topology: &Topology, node: NodeId) -> CpuSet {
        let all = self.placement.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
        all.intersection(&topology.usable_cpus(node))
    }

    /// Threads on each memory node that serve some devices, if the plan names those; else all of that side.
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
            format!("the plan is about {}, and {what} {}", named.join(", "), here.join(", "))
        });
        let mut threads = BTreeMap::new();
        for pool in if own.is_empty() { pools.iter().collect() } else { own } {
            *threads.entry(pool.way.memory_node).or_insert(0) += pool.threads as usize;
        }
        (threads, note)
    }
}

/// The first cores of some CPUs, one for each thread: the plan's others serve the network.
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
