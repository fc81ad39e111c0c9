//! Restrictions of this process and its children by cpusets and memory limits.

use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::findings::matters;
use crate::ids::NodeId;
use crate::topology::{Confinement, Topology};
use crate::units::format_size;

pub(super) fn symptoms(topology: &Topology) -> Vec<Symptom> {
    let confinement = &topology.confinement;
    let nodes = topology.device_nodes();
    let of_devices = nodes.iter().filter_map(|node| near_devices(topology, node));
    of_devices.chain(memory_limit(confinement)).collect()
}

/// Reports devices on a node that this process may not use.
fn near_devices(topology: &Topology, id: NodeId) -> Option<Symptom> {
    let node = topology.node(id)?;
    let devices = topology.devices_on(id).filter(|device| matters(device));
    let devices: Vec<String> = devices.map(|device| device.name()).collect();
    let no_cpus = !node.cpus.is_empty() && topology.usable_cpus(id).is_empty();
    let no_memory = node.has_memory() && !node.memory_allowed;
    let what = match (no_cpus, no_memory) {
        _ if devices.is_empty() => return None,
        (true, true) => "CPUs and memory",
        (true, false) => "CPUs",
        (false, true) => "memory",
        (false, false) => return None,
    };
    let allowed = topology.nodes.iter().filter(|node| node.has_memory() && node.memory_allowed);
    let effect = match no_memory {
        true => Effect::any_of(allowed.map(|node| node.id).collect()),
        // Memory can still be near; the cost of distant CPUs does not follow from copies by near
        // CPUs.
        false => {
            Effect::Unquantified("measure the device from every permitted node with numaio bench".to_owned())
        }
    };
    Some(Symptom {
        finding: Finding::new(
            Severity::Warning,
            "device-node-closed",
            format!("node {id}"),
            format!(
                "This process may not use the {what} of node {id}, which is local to {}.",
                devices.join(", ")
            ),
            evidence(&topology.confinement),
            match !no_memory && node.cpus.is_subset(&topology.isolated_cpus()) {
                true => {
                    "Give the program an explicit affinity to isolated CPUs of this node, if they are for it."
                }
                false => "Allow the node in the cpuset of the enclosing service, container or session.",
            },
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
        finding: Finding::new(
            Severity::Note,
            "memory-limited",
            "this process",
            format!("The memory limit of this process is {}, including its page cache.", format_size(bytes)),
            evidence(confinement),
            "Raise the limit unless it is intended.",
        ),
        device: None,
        target: None,
        effect: Effect::Nothing,
        fix: Fix::none(),
    })
}

fn evidence(confinement: &Confinement) -> String {
    match confinement.sources.is_empty() {
        true => "/proc/self/status: Cpus_allowed_list, Mems_allowed_list".to_owned(),
        false => confinement.sources.join("; "),
    }
}

/// Opens the cpuset of a systemd unit; the creator of any other group is unknown.
pub(super) fn open(confinement: &Confinement) -> Fix {
    let group = confinement.cgroup.as_deref().unwrap_or_default();
    let unit = group.rsplit('/').next().unwrap_or_default();
    let is_unit = unit.ends_with(".service") || unit.ends_with(".slice") || unit.ends_with(".scope");
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_@:".contains(c);
    let by_cpuset = confinement.sources.iter().any(|by| by.contains("cpuset"));
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
