//! Effects and fixes of the topology's findings.

use super::confinement;
use super::memory::next_best;
use super::shell::option;
use super::steering::by_numaio;
use super::symptom::{Effect, Fix, Symptom};
use crate::conditions::Conditions;
use crate::devices::{Device, DeviceKind};
use crate::findings::{self, Finding, Severity};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::steering;
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use crate::workload::Direction;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions) -> Vec<Symptom> {
    // [`super::memory`] reports memory without CPUs together with its effect.
    let all = topology.findings.iter().filter(|finding| finding.rule != "node-without-cpus");
    all.map(|finding| symptom(root, topology, conditions, finding)).collect()
}

fn symptom(root: &dyn Sysfs, topology: &Topology, conditions: &Conditions, finding: &Finding) -> Symptom {
    let device = topology.devices.iter().position(|device| device.has_name(&finding.subject));
    let named = device.and_then(|index| topology.devices.get(index));
    let node = topology.nodes.iter().map(|node| node.id).find(|id| finding.subject == format!("node {id}"));
    let target = node.or(named.and_then(|device| device.locality.node));
    let (effect, fix) = match (finding.rule.as_str(), named) {
        ("irq-foreign-node", Some(device)) => {
            (of_interrupts(topology, device), move_interrupts(root, topology, device, conditions))
        }
        ("irq-one-core", Some(device)) => (
            Effect::Unquantified(
                "one core handles all packets: measure before and after with numaio bench net and several streams"
                    .to_owned(),
            ),
            move_interrupts(root, topology, device, conditions),
        ),
        ("pcie-link-degraded", Some(device)) => (of_link(topology, device), Fix::none()),
        ("pcie-link-shared" | "devices-on-one-socket", _) => (Effect::Nothing, Fix::none()),
        ("confined" | "cpu-throttled", _) => (Effect::Nothing, confinement::open(&topology.confinement)),
        ("numa-balancing", _) => balancing(conditions),
        ("node-memory-low", _) => match target {
            Some(node) => (Effect::any_of(next_best(topology, node)), Fix::none()),
            None => (Effect::Nothing, Fix::none()),
        },
        ("device-node-unknown", Some(device)) => (measure_anywhere(topology, device), Fix::none()),
        ("device-node-without-cpus", Some(_)) => {
            let measure = "measure the device from every node with numaio bench".to_owned();
            (Effect::Unquantified(measure), Fix::none())
        }
        _ if finding.severity == Severity::Note => (Effect::Nothing, Fix::none()),
        _ => (Effect::Unquantified("measure the nodes with numaio model".to_owned()), Fix::none()),
    };
    Symptom { finding: finding.clone(), device, target, effect, fix }
}

/// Returns where a device's buffers are, given the CPUs of its interrupts.
///
/// Network drivers allocate receive buffers on the node of the interrupt's CPU. For other devices
/// the programs choose the location.
fn of_interrupts(topology: &Topology, device: &Device) -> Effect {
    let nodes =
        device.irqs.iter().flat_map(|irq| nodes_of(topology, irq.delivery_cpus())).collect::<NodeSet>();
    match device.kind {
        DeviceKind::Network if !nodes.is_empty() => {
            Effect::AnyOf { nodes, direction: Some(Direction::Read), share: 1.0 }
        }
        _ => Effect::Unquantified(
            "distant interrupts cost time, not copies: measure the device before and after with numaio bench"
                .to_owned(),
        ),
    }
}

fn nodes_of(topology: &Topology, cpus: &CpuSet) -> Vec<NodeId> {
    cpus.iter().filter_map(|cpu| topology.cpu(cpu)?.node).collect()
}

/// Moves the movable interrupts; no fix if the kernel manages all of them.
fn move_interrupts(root: &dyn Sysfs, topology: &Topology, device: &Device, conditions: &Conditions) -> Fix {
    if device.irqs.iter().all(|irq| steering::unmovable_reason(root, irq).is_some()) {
        return Fix::none();
    }
    let mut fix = by_numaio(topology, device);
    if conditions.irqbalance == Some(true) {
        // irqbalance would move them again; therefore numaio irq apply rejects the change.
        fix.commands.insert(0, "systemctl stop irqbalance".to_owned());
        fix.undo.push("systemctl start irqbalance".to_owned());
    }
    fix
}

fn of_link(topology: &Topology, device: &Device) -> Effect {
    match findings::link_loss(&topology.devices, device) {
        Some(lost) => Effect::LinkLoss(lost),
        None => Effect::Unquantified(
            "check again while the device is busy: an idle device lowers the speed of its link".to_owned(),
        ),
    }
}

fn balancing(conditions: &Conditions) -> (Effect, Fix) {
    let set = |mode: u32| format!("sysctl -w kernel.numa_balancing={mode}");
    let mode = conditions.numa_balancing.unwrap_or(1);
    // Without bit 0; memory tiering (bit 1) stays.
    let fixed = mode & !1;
    (
        Effect::Unquantified(
            "it depends on the program; compare numaio model with and without --pause-balancing for copies"
                .to_owned(),
        ),
        Fix::one(set(fixed), set(mode)),
    )
}

/// Suggests a measurement from each node, because the near node is unknown.
fn measure_anywhere(topology: &Topology, device: &Device) -> Effect {
    let name = device.name();
    let command = match device.kind {
        DeviceKind::Nvme | DeviceKind::Block => {
            format!("numaio bench disk {} --direction read", option("--device", &name))
        }
        DeviceKind::Gpu => "numaio bench gpu".to_owned(),
        _ => "numaio bench".to_owned(),
    };
    let nodes = match topology.cpu_nodes().len() {
        0 | 1 => "each node".to_owned(),
        several => format!("each of the {several} nodes"),
    };
    Effect::Unquantified(format!("measure it from {nodes} with {command} to find the nearest"))
}
