//! Findings about interrupts on CPUs that are distant from their device.

use super::matters;
use crate::devices::{Device, DeviceKind, Irq};
use crate::finding::{Finding, Severity};
use crate::set::CpuSet;
use crate::steering;
use crate::sysfs::Sysfs;
use crate::topology::{Node, Topology};

/// Number of interrupts to name as examples.
const EXAMPLES: usize = 3;

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
        message: format!(
            "{} of {} interrupts of {} go only to CPUs outside its node {}.",
            foreign.len(),
            all.len(),
            device.name(),
            node.id
        ),
        evidence: examples.join("; "),
        remedy: remedy(root, &foreign, topology, node),
    })
}

/// Names the CPUs to bind to, without isolated ones, as `numaio irq plan` chooses them.
fn remedy(root: &dyn Sysfs, foreign: &[&Irq], topology: &Topology, node: &Node) -> String {
    let fixed = foreign.iter().filter(|irq| steering::unmovable_reason(root, irq).is_some()).count();
    if fixed == foreign.len() {
        return "None: the kernel manages these interrupts and does not move them. Programs near the device use its \
                other queues, or more queues are configured."
            .to_owned();
    }
    let quiet = node.cpus.difference(&topology.isolated_cpus());
    let cpus = if quiet.is_empty() { &node.cpus } else { &quiet };
    let except = match fixed {
        0 => String::new(),
        fixed => format!("; the kernel manages {fixed} of them and does not move those"),
    };
    format!(
        "Bind them to CPUs of node {} (/proc/irq/N/smp_affinity_list: {cpus}), and keep irqbalance away from them{except}.",
        node.id
    )
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
