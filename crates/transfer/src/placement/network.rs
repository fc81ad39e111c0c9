//! Placement of data connections' threads: by a plan, or near the network interfaces that carry the
//! data.

use super::machine_view::MachineView;
use super::plan::SidePlan;
use crate::event::PlacedConnections;
use numaio_machine::devices::Device;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::set::CpuSet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Places connections to addresses beside the CPUs that worker groups have `taken`, and returns a
/// note for the user.
pub fn place_connections(
    seen: Option<&MachineView>,
    peer_addresses: &[Option<IpAddr>],
    plan: Option<&SidePlan>,
    taken: &CpuSet,
) -> (PlacedConnections, Option<String>) {
    let Some(seen) = seen else { return (anywhere(), None) };
    let found: BTreeMap<IpAddr, Resolved> = peer_addresses
        .iter()
        .flatten()
        .map(|peer| (*peer, seen.found(&Handle::Host { name: peer.to_string(), port: None })))
        .collect();
    if let Some(plan) = plan {
        let devices: Vec<&Device> = found.values().flat_map(|found| seen.devices(found)).collect();
        let (cpus, note) = plan.network(&seen.topology, &devices, taken);
        if !cpus.is_empty() {
            return (PlacedConnections { by: "the plan", cpus }, note);
        }
    }
    let near: BTreeMap<IpAddr, CpuSet> =
        found.iter().map(|(peer, found)| (*peer, near(seen, found))).collect();
    let of = |peer: &Option<IpAddr>| near.get(peer.as_ref()?).filter(|cpus| !cpus.is_empty()).cloned();
    let mut cpu_sets: Vec<Option<CpuSet>> = peer_addresses.iter().map(of).collect();
    if cpu_sets.iter().all(|place| Some(place) == cpu_sets.first()) {
        cpu_sets.truncate(1);
    }
    (by_nodes(seen, cpu_sets), None)
}

/// Leaves the threads to the kernel.
fn anywhere() -> PlacedConnections {
    PlacedConnections { by: "the kernel", cpus: Vec::new() }
}

/// Makes a CPU set for each connection, or one for all if they are the same. The default is all
/// usable CPUs.
fn by_nodes(seen: &MachineView, cpu_sets: Vec<Option<CpuSet>>) -> PlacedConnections {
    if cpu_sets.iter().all(Option::is_none) {
        return anywhere();
    }
    let nodes = seen.topology.nodes.iter();
    let any = nodes.fold(CpuSet::new(), |all, node| all.union(&seen.topology.usable_cpus(node.id)));
    let cpus = cpu_sets.into_iter().map(|place| place.unwrap_or_else(|| any.clone())).collect();
    PlacedConnections { by: "the network's node", cpus }
}

/// Returns the usable CPUs on the nodes of the interfaces that carry data, without standby
/// interfaces.
fn near(seen: &MachineView, found: &Resolved) -> CpuSet {
    found.nodes.iter().fold(CpuSet::new(), |all, near| all.union(&seen.topology.usable_cpus(near.node)))
}
