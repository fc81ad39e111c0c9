//! What this process, and with it what it starts, may not use.

use super::{finding, Effect, Mend, Symptom};
use crate::findings::{matters, Severity};
use crate::ids::NodeId;
use crate::topology::{Confinement, Topology};
use crate::units::size_for_people;

pub(super) fn symptoms(topology: &Topology) -> Vec<Symptom> {
    let confinement = &topology.confinement;
    let of_devices: Vec<Symptom> =
        topology.device_nodes().iter().filter_map(|node| near_devices(topology, node)).collect();
    let whole = of_devices.is_empty().then(|| elsewhere(confinement)).flatten();
    of_devices.into_iter().chain(whole).chain(memory_limit(confinement)).collect()
}

/// Devices on a node that is closed to this process.
fn near_devices(topology: &Topology, id: NodeId) -> Option<Symptom> {
    let node = topology.node(id)?;
    let devices = topology.devices_on(id).filter(|device| matters(device));
    let devices: Vec<String> = devices.map(|device| device.name()).collect();
    let no_cpus = !node.cpus.is_empty() && topology.usable_cpus(id).is_empty();
    let no_memory = node.memory.is_some() && !node.memory_allowed;
    let what = match (no_cpus, no_memory) {
        _ if devices.is_empty() => return None,
        (true, true) => "CPUs and memory",
        (true, false) => "CPUs",
        (false, true) => "memory",
        (false, false) => return None,
    };
    let allowed = topology.nodes.iter().filter(|node| node.memory.is_some() && node.memory_allowed);
    let effect = match no_memory {
        true => Effect::AnyOf(allowed.map(|node| node.id).collect(), None),
        // Memory may still be near; what far CPUs cost, copies by near ones do not tell.
        false => {
            Effect::FindOut("numaio bench measures the device from every node that may be used".to_owned())
        }
    };
    Some(Symptom {
        finding: finding(
            Severity::Warning,
            "device-node-closed",
            format!("node {id}"),
            format!("This process may not use the {what} of node {id}, where {} hang.", devices.join(", ")),
            seen(&topology.confinement),
            "Open the node in the cpuset of the service, container or session that this runs in.",
        ),
        device: None,
        target: Some(id),
        effect,
        mend: open(&topology.confinement),
    })
}

/// CPUs or memory without devices are closed.
fn elsewhere(confinement: &Confinement) -> Option<Symptom> {
    let Confinement { excluded_cpus, excluded_nodes, .. } = confinement;
    let cpus = (!excluded_cpus.is_empty()).then(|| format!("CPUs {excluded_cpus}"));
    let nodes = (!excluded_nodes.is_empty()).then(|| format!("memory of nodes {excluded_nodes}"));
    let closed: Vec<String> = cpus.into_iter().chain(nodes).collect();
    (!closed.is_empty()).then(|| Symptom {
        finding: finding(
            Severity::Note,
            "confined",
            "this process",
            format!("This process may not use {}; numaio places nothing there.", closed.join(" and ")),
            seen(confinement),
            "Widen the cpuset if that is not meant.",
        ),
        device: None,
        target: None,
        effect: Effect::Nothing,
        mend: open(confinement),
    })
}

fn memory_limit(confinement: &Confinement) -> Option<Symptom> {
    let bytes = confinement.memory_limit_bytes?;
    Some(Symptom {
        finding: finding(
            Severity::Note,
            "memory-limited",
            "this process",
            format!(
                "This process may have {} of memory, the cache of its files included.",
                size_for_people(bytes)
            ),
            seen(confinement),
            "Raise the limit if that is not meant.",
        ),
        device: None,
        target: None,
        effect: Effect::Nothing,
        mend: Mend::none(),
    })
}

fn seen(confinement: &Confinement) -> String {
    let group = confinement.cgroup.iter().map(|group| format!("control group {group}"));
    let by = confinement.by.iter().cloned();
    match by.chain(group).collect::<Vec<String>>() {
        empty if empty.is_empty() => "/proc/self/status: Cpus_allowed_list, Mems_allowed_list".to_owned(),
        told => told.join("; "),
    }
}

/// systemd can open what its own unit closes; nobody else's name for a group tells who made it.
fn open(confinement: &Confinement) -> Mend {
    let group = confinement.cgroup.as_deref().unwrap_or_default();
    let unit = group.rsplit('/').next().unwrap_or_default();
    let is_unit = unit.ends_with(".service") || unit.ends_with(".slice") || unit.ends_with(".scope");
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_@:".contains(c);
    let by_cpuset = confinement.by.iter().any(|by| by.contains("cpuset"));
    match is_unit && by_cpuset && unit.chars().all(plain) {
        true => Mend {
            commands: vec![format!(
                "systemctl set-property --runtime {unit} AllowedCPUs= AllowedMemoryNodes="
            )],
            undo: Vec::new(),
        },
        false => Mend::none(),
    }
}
