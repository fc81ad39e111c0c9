//! Findings about interrupts on CPUs that are distant from their device, or on few of its cores.

use super::matters;
use crate::devices::{Device, DeviceKind, Irq};
use crate::finding::{Finding, Severity};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::steering;
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use std::collections::BTreeSet;

/// Number of interrupts to name as examples.
const EXAMPLES: usize = 3;

/// Reports devices with several queues whose interrupts go to a single core, though their node has
/// more; `numaio irq plan` divides them among its cores.
pub(super) fn crowded(root: &dyn Sysfs, topology: &Topology) -> Vec<Finding> {
    let devices = topology.devices.iter().filter(|device| matters(device));
    devices.filter_map(|device| crowded_of(root, device, topology)).collect()
}

fn crowded_of(root: &dyn Sysfs, device: &Device, topology: &Topology) -> Option<Finding> {
    let of_queues = device.irqs.iter().filter_map(|irq| {
        let queue = steering::queue_of_device(&irq.name, &device.names)?;
        (!irq.delivery_cpus().is_empty()).then_some((queue, irq))
    });
    let of_queues: Vec<(u32, &Irq)> = of_queues.collect();
    let served: CpuSet = of_queues.iter().flat_map(|(_, irq)| irq.delivery_cpus().iter()).collect();
    let core = topology.cpu(served.first()?)?.siblings.clone();
    if !served.is_subset(&core) {
        return None;
    }
    let movable = of_queues.iter().filter(|(_, irq)| steering::unmovable_reason(root, irq).is_none());
    let queues = movable.map(|(queue, _)| *queue).collect::<BTreeSet<u32>>().len();
    let near = device.locality.node.map_or_else(|| topology.cpu_nodes(), NodeSet::one);
    let near = near.iter().map(|node| unisolated_cores(topology, node)).sum::<usize>();
    if queues < 2 || near < 2 {
        return None;
    }
    let examples: Vec<String> = of_queues.iter().take(EXAMPLES).map(|(_, irq)| example(irq)).collect();
    Some(Finding::new(
        Severity::Warning,
        "irq-one-core",
        device.distinct_name(&topology.devices),
        format!("The interrupts of its {queues} queues all go to CPUs {served} of one core, though {near} cores are near."),
        examples.join("; "),
        "Divide them among these cores: numaio irq plan shows how, numaio irq apply does it.",
    ))
}

/// Returns the number of cores of a node with a CPU that is not isolated.
fn unisolated_cores(topology: &Topology, node: NodeId) -> usize {
    let cpus = topology.cpus.iter().filter(|cpu| cpu.online && !cpu.isolated && cpu.node == Some(node));
    cpus.filter_map(|cpu| cpu.siblings.first()).collect::<BTreeSet<_>>().len()
}

/// Reports devices whose interrupts go only to CPUs of other nodes.
pub(super) fn foreign(root: &dyn Sysfs, topology: &Topology) -> Vec<Finding> {
    if topology.cpu_nodes().len() < 2 {
        return Vec::new();
    }
    topology
        .devices
        .iter()
        .filter(|device| matters(device))
        .filter_map(|it| foreign_of(root, it, topology))
        .collect()
}

fn foreign_of(root: &dyn Sysfs, device: &Device, topology: &Topology) -> Option<Finding> {
    let node = topology.node(device.locality.node?).filter(|node| !node.cpus.is_empty())?;
    let near = near_cpus(device, topology, &node.cpus);
    let all = in_use(device);
    let foreign: Vec<&Irq> = all.iter().copied().filter(|irq| is_foreign(irq, &near)).collect();
    let severity = match device.kind {
        _ if foreign.is_empty() => return None,
        _ if foreign.len() == all.len() => Severity::Warning,
        DeviceKind::Network | DeviceKind::Rdma => Severity::Note,
        // Drives are designed to have a queue for each CPU of the machine.
        _ => return None,
    };
    let examples: Vec<String> = foreign.iter().take(EXAMPLES).map(|irq| example(irq)).collect();
    Some(Finding {
        severity,
        rule: "irq-foreign-node".into(),
        subject: device.distinct_name(&topology.devices),
        // Without numbers, which would keep equal findings of several devices apart.
        message: match foreign.len() == all.len() {
            true => "All its interrupts go only to CPUs outside its node.".to_owned(),
            false => "Some of its interrupts go only to CPUs outside its node.".to_owned(),
        },
        evidence: format!(
            "{} of {} interrupts, its node is {}: {}",
            foreign.len(),
            all.len(),
            node.id,
            examples.join("; ")
        ),
        remedy: remedy(root, &foreign),
    })
}

/// Names the commands that move interrupts, unless the kernel moves none of these.
fn remedy(root: &dyn Sysfs, foreign: &[&Irq]) -> String {
    match foreign.iter().all(|irq| steering::unmovable_reason(root, irq).is_some()) {
        true => {
            "None: the kernel manages these interrupts and does not move them. Programs near the device use its \
             other queues, or more queues are configured."
        }
        false => {
            "Bind them to CPUs of its node: numaio irq plan shows how, numaio irq apply does it. Keep irqbalance away \
             from them."
        }
    }
    .to_owned()
}

/// Returns the CPUs of all nodes nearest to the device.
fn near_cpus(device: &Device, topology: &Topology, of_node: &CpuSet) -> CpuSet {
    let others = device.locality.nodes.iter().filter_map(|id| topology.node(id));
    others.fold(of_node.clone(), |near, node| near.union(&node.cpus))
}

/// Returns the interrupts with a handler, or all of them without names from /proc/interrupts.
fn in_use(device: &Device) -> Vec<&Irq> {
    let named: Vec<&Irq> = device.irqs.iter().filter(|irq| !irq.name.is_empty()).collect();
    if named.is_empty() {
        device.irqs.iter().collect()
    } else {
        named
    }
}

fn is_foreign(irq: &Irq, near: &CpuSet) -> bool {
    let cpus = irq.delivery_cpus();
    !cpus.is_empty() && !cpus.iter().any(|cpu| near.contains(cpu))
}

fn example(irq: &Irq) -> String {
    let file = if irq.effective.is_some() { "effective_affinity_list" } else { "smp_affinity_list" };
    let name = if irq.name.is_empty() { String::new() } else { format!(" ({})", irq.name) };
    format!("/proc/irq/{}/{file}: {}{name}", irq.number, irq.delivery_cpus())
}
