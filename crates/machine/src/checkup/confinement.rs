//! What this process, and with it what it starts, may not use.

use super::{finding, Effect, Fix, Symptom};
use crate::findings::{matters, Severity};
use crate::ids::NodeId;
use crate::topology::{Confinement, Topology};
use crate::units::format_size;

pub(super) fn symptoms(topology: &Topology) -> Vec<Symptom> {
    let confinement = &topology.confinement;
    let nodes = topology.device_nodes();
    let of_devices = nodes.iter().filter_map(|node| near_devices(topology, node));
    of_devices.chain(memory_limit(confinement)).collect()
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
        true => Effect::any_of(allowed.map(|node| node.id).collect()),
        // Memory may still be near; what far CPUs cost, copies by near ones do not tell.
        false => Effect::Unquantified(
            "numaio bench measures the device from every node that may be used".to_owned(),
        ),
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
        fix: open(&topology.confinement),
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
                format_size(bytes)
            ),
            seen(confinement),
            "Raise the limit if that is not meant.",
        ),
        device: None,
        target: None,
        effect: Effect::Nothing,
        fix: Fix::none(),
    })
}

fn seen(confinement: &Confinement) -> String {
    match confinement.by.is_empty() {
        true => "/proc/self/status: Cpus_allowed_list, Mems_allowed_list".to_owned(),
        false => confinement.by.join("; "),
    }
}

/// systemd can open what its own unit closes; nobody else's name for a group tells who made it.
pub(super) fn open(confinement: &Confinement) -> Fix {
    let group = confinement.cgroup.as_deref().unwrap_or_default();
    let unit = group.rsplit('/').next().unwrap_or_default();
    let is_unit = unit.ends_with(".service") || unit.ends_with(".slice") || unit.ends_with(".scope");
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_@:".contains(c);
    let by_cpuset = confinement.by.iter().any(|by| by.contains("cpuset"));
    match is_unit && by_cpuset && unit.chars().all(plain) {
        true => Fix {
            commands: vec![format!(
                "systemctl set-property --runtime {unit} AllowedCPUs= AllowedMemoryNodes="
            )],
            undo: Vec::new(),
        },
        false => Fix::none(),
    }
}
