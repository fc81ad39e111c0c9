//! `--plan`: which threads of a plan do the work of a side.

use super::place::Crewed;
use crate::args::Common;
use crate::commands::placing;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use numaio_machine::devices::Device;
use numaio_machine::see::see;
use numaio_machine::set::CpuSet;
use numaio_machine::topology::Topology;
use numaio_mover::wire::Side;
use numaio_schema::{PlacementPlan, Plan, PlannedPool, Transfer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A plan of a transfer that holds on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    plan: Plan,
    places: PlacementPlan,
}

/// Reads plans, and says what they compromise on.
pub fn read(common: &Common, paths: &[PathBuf]) -> Result<Vec<Planned>, Failure> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let machine = Machine::pick(common)?;
    let topology = see(&machine);
    let mut all: Vec<Planned> = Vec::new();
    for path in paths {
        let (plan, places) = placing::read_transfer(&machine, &topology, path)?;
        places.compromises.iter().for_each(|compromise| output::remark(common, compromise));
        let planned = Planned { plan, places };
        if all.iter().any(|other| other.side() == planned.side()) {
            return Err(Failure::file(path, "it is a second plan for the same side")
                .hint("give one plan to send and one to receive (numaio plan --receive)"));
        }
        all.push(planned);
    }
    Ok(all)
}

impl Planned {
    /// The side that it is for: a plan to send is the source's, one to receive the sink's.
    pub fn side(&self) -> Side {
        match self.plan.problem.direction {
            Transfer::Send => Side::Source,
            Transfer::Receive => Side::Sink,
        }
    }

    /// The threads that read or write storage, one crew for each memory node, and what is to be said of them. Of a plan
    /// that names the devices of the side only the pools of these count.
    pub fn crews(&self, topology: &Topology, devices: &[&Device]) -> (Vec<Crewed>, Option<String>) {
        let pools = self.plan.pools();
        let storage = match self.side() {
            Side::Source => pools.fills,
            Side::Sink => pools.drains,
        };
        let serves = |pool: &&PlannedPool| {
            pool.devices.iter().any(|name| devices.iter().any(|device| device.answers_to(name)))
        };
        let own: Vec<&PlannedPool> = storage.iter().filter(serves).collect();
        let named: Vec<&str> = storage.iter().flat_map(|pool| &pool.devices).map(String::as_str).collect();
        let note = (own.is_empty() && !devices.is_empty()).then(|| {
            let here: Vec<String> = devices.iter().map(|device| device.name()).collect();
            format!("the plan is about {}, and the files are on {}", named.join(", "), here.join(", "))
        });
        let used = if own.is_empty() { storage.iter().collect() } else { own };
        let mut threads = BTreeMap::new();
        for pool in used {
            *threads.entry(pool.way.memory_node).or_insert(0) += pool.threads as usize;
        }
        let cpus = self.places.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus));
        let crew = |(node, threads)| {
            let own = cpus.intersection(&topology.usable_cpus(node));
            Crewed { threads, node: Some(node), cpus: Some(cores(topology, &own, threads)) }
        };
        (threads.into_iter().map(crew).collect(), note)
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
