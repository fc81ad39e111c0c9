//! Placement of data connections' threads: by a plan, or near the network interfaces that carry the
//! data.

use super::side_placement::MachineView;
use super::side_plan::SidePlan;
use numaio_machine::devices::Device;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::set::CpuSet;
use numaio_mover_linux::port::WorkerGroup;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Placement of the threads of data connections.
#[derive(Debug)]
pub struct NetworkPlacement {
    by: &'static str,
    /// CPU sets that the threads take in turn; any CPU if there are none.
    pub cpu_sets: Vec<CpuSet>,
}

impl NetworkPlacement {
    /// Leaves the threads to the kernel.
    pub fn anywhere() -> Self {
        Self { by: "the kernel", cpu_sets: Vec::new() }
    }

    /// Places connections to addresses beside the threads of `worker_groups`, and returns a note
    /// for the user.
    pub fn new(
        seen: &MachineView,
        peer_addresses: &[Option<IpAddr>],
        plan: Option<&SidePlan>,
        worker_groups: &[WorkerGroup],
    ) -> (Self, Option<String>) {
        let found: BTreeMap<IpAddr, Resolved> = peer_addresses
            .iter()
            .flatten()
            .map(|peer| (*peer, seen.found(&Handle::Host { name: peer.to_string(), port: None })))
            .collect();
        if let Some(plan) = plan {
            let devices: Vec<&Device> = found.values().flat_map(|found| seen.devices(found)).collect();
            let taken = worker_groups.iter().flat_map(|group| &group.cpus);
            let taken = taken.fold(CpuSet::new(), |all, cpus| all.union(cpus));
            let (cpu_sets, note) = plan.network(&seen.topology, &devices, &taken);
            if !cpu_sets.is_empty() {
                return (Self { by: "the plan", cpu_sets }, note);
            }
        }
        let near: BTreeMap<IpAddr, CpuSet> =
            found.iter().map(|(peer, found)| (*peer, near(seen, found))).collect();
        let of = |peer: &Option<IpAddr>| near.get(peer.as_ref()?).filter(|cpus| !cpus.is_empty()).cloned();
        let mut cpu_sets: Vec<Option<CpuSet>> = peer_addresses.iter().map(of).collect();
        if cpu_sets.iter().all(|place| Some(place) == cpu_sets.first()) {
            cpu_sets.truncate(1);
        }
        (Self::by_nodes(seen, cpu_sets), None)
    }

    /// Makes a CPU set for each connection, or one for all if they are the same. The default is all
    /// usable CPUs.
    fn by_nodes(seen: &MachineView, cpu_sets: Vec<Option<CpuSet>>) -> Self {
        if cpu_sets.iter().all(Option::is_none) {
            return Self::anywhere();
        }
        let nodes = seen.topology.nodes.iter();
        let any = nodes.fold(CpuSet::new(), |all, node| all.union(&seen.topology.usable_cpus(node.id)));
        let cpu_sets = cpu_sets.into_iter().map(|place| place.unwrap_or_else(|| any.clone())).collect();
        Self { by: "the network's node", cpu_sets }
    }

    /// Returns the placement for the JSON event.
    pub fn event(&self) -> Value {
        let cpus: Vec<String> = self.cpu_sets.iter().map(ToString::to_string).collect();
        json!({"by": self.by, "cpus": cpus})
    }

    /// Returns the placement as text.
    pub fn line(&self) -> String {
        let mut cpu_sets: Vec<String> = Vec::new();
        for place in self.cpu_sets.iter().map(cpus_text) {
            if !cpu_sets.contains(&place) {
                cpu_sets.push(place);
            }
        }
        match &cpu_sets[..] {
            [] => "data connections on any CPU".to_owned(),
            cpu_sets => format!("data connections on {}, placed by {}", cpu_sets.join(" and "), self.by),
        }
    }
}

/// Returns the usable CPUs on the nodes of the interfaces that carry data, without standby
/// interfaces.
fn near(seen: &MachineView, found: &Resolved) -> CpuSet {
    let nodes = found.nodes.iter().filter(|near| near.share > 0.0);
    nodes.fold(CpuSet::new(), |all, near| all.union(&seen.topology.usable_cpus(near.node)))
}

/// Formats CPUs for messages.
pub fn cpus_text(cpus: &CpuSet) -> String {
    let s = if cpus.len() == 1 { "" } else { "s" };
    format!("CPU{s} {cpus}")
}
