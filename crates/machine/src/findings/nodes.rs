//! Findings about devices and their nodes.

use super::matters;
use crate::devices::{Device, DeviceKind, LocalitySource};
use crate::finding::{Finding, Severity};
use crate::ids::PackageId;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::{Node, Topology};
use std::collections::BTreeSet;

/// Class of USB controllers, which connect management controllers or external drives.
const USB: u32 = 0x0c03;

/// Reports devices with an unknown node, on a machine with several nodes.
pub(super) fn unknown(topology: &Topology) -> Vec<Finding> {
    if topology.nodes.len() < 2 {
        return Vec::new();
    }
    let physical = topology.devices.iter().filter(|device| matters(device) && !device.is_virtual_function());
    physical
        .filter(|device| device.locality.node.is_none())
        .map(|device| unknown_of(device, topology))
        .collect()
}

fn unknown_of(device: &Device, topology: &Topology) -> Finding {
    let (what, evidence) = match device.locality.source {
        LocalitySource::AbsentNode => (
            "It reports a node that this machine does not have.",
            format!("{}/numa_node: a node that is not online", device.path),
        ),
        _ => (
            "Its node is unknown.",
            format!(
                "{0}/numa_node: -1 or absent; neither its parents nor {0}/local_cpulist identify the node",
                device.path
            ),
        ),
    };
    // A hypervisor that was not asked for it reports no nodes of devices to a guest.
    let is_guest = topology.surroundings.virtual_machine;
    Finding {
        severity: if is_guest { Severity::Note } else { Severity::Warning },
        rule: "device-node-unknown".into(),
        subject: device.distinct_name(&topology.devices),
        message: what.to_owned(),
        evidence,
        remedy: topology.surroundings.remedy(
            "Update the firmware (ACPI _PXM of the root complex), or measure the device from every node.",
            "Measure the device from every node, or attach it to a bus of its node",
            "<controller model='pcie-expander-bus'> with <target><node> in libvirt, -device \
                 pxb-pcie,numa_node=N in QEMU",
        ),
    }
}

/// Reports those of some devices whose reported node has none of their local CPUs.
pub(super) fn conflicting(root: &dyn Sysfs, topology: &Topology, devices: &[Device]) -> Vec<Finding> {
    if topology.cpu_nodes().len() < 2 {
        return Vec::new();
    }
    let known = topology.nodes.iter().fold(CpuSet::new(), |known, node| known.union(&node.cpus));
    let physical = devices.iter().filter(|device| matters(device) && !device.is_virtual_function());
    physical.filter_map(|device| conflict_of(root, topology, &known, device)).collect()
}

/// Compares a device's local CPUs with its node; `known` are the CPUs of all nodes.
fn conflict_of(root: &dyn Sysfs, topology: &Topology, known: &CpuSet, device: &Device) -> Option<Finding> {
    if device.locality.source != LocalitySource::NumaNode {
        return None;
    }
    let node = topology.node(device.locality.node?).filter(|node| !node.cpus.is_empty())?;
    let file = format!("{}/local_cpulist", device.path);
    let local = CpuSet::parse_list(&root.optional(&file)?).ok()?;
    if local.intersects(&node.cpus) {
        return None;
    }
    let local = local.intersection(known);
    if local.is_empty() {
        return None;
    }
    Some(Finding {
        severity: Severity::Warning,
        rule: "device-locality-conflict".into(),
        subject: device.distinct_name(&topology.devices),
        message: format!(
            "It reports node {}, but CPUs {local} of other nodes as local; the kernel allocates on node {}.",
            node.id,
            node.id
        ),
        evidence: format!("{}/numa_node: {}; {file}: {local}", device.path, node.id),
        remedy: topology
            .surroundings
            .remedy(
                "Measure the device from every node with numaio bench; update the firmware (ACPI _PXM of the root \
                 complex).",
                "Measure the device from every node with numaio bench; attach it to a bus of its node",
                "<controller model='pcie-expander-bus'> in libvirt, -device pxb-pcie in QEMU",
            ),
    })
}

/// Reports devices on nodes without CPUs or without memory.
pub(super) fn incomplete(topology: &Topology) -> Vec<Finding> {
    let physical = topology.devices.iter().filter(|device| matters(device) && !device.is_virtual_function());
    physical
        .filter_map(|device| incomplete_of(device, topology.node(device.locality.node?)?, &topology.devices))
        .collect()
}

fn incomplete_of(device: &Device, node: &Node, devices: &[Device]) -> Option<Finding> {
    let (severity, lacks, file, remedy) = match (node.cpus.is_empty(), !node.has_memory()) {
        (true, _) => (Severity::Warning, "CPUs", "cpulist", "Run its threads on the nearest node with CPUs."),
        (_, true) => {
            (Severity::Note, "memory", "meminfo", "Place its buffers on the nearest node with memory.")
        }
        _ => return None,
    };
    Some(Finding {
        severity,
        rule: "device-node-without-cpus".into(),
        subject: device.distinct_name(devices),
        message: format!("It is on node {}, which has no {lacks}.", node.id),
        evidence: format!("{}/numa_node; /sys/devices/system/node/node{}/{file}: none", device.path, node.id),
        remedy: remedy.into(),
    })
}

/// Reports all GPUs, or all network interfaces, on a single package of several.
pub(super) fn one_package(topology: &Topology) -> Vec<Finding> {
    let packages: BTreeSet<PackageId> =
        topology.nodes.iter().flat_map(|node| node.packages.iter().copied()).collect();
    if packages.len() < 2 {
        return Vec::new();
    }
    [("GPUs", is_gpu as fn(&Device) -> bool), ("network interfaces", is_interface)]
        .into_iter()
        .filter_map(|(what, is)| one_package_of(topology, what, is))
        .collect()
}

fn one_package_of(topology: &Topology, what: &str, is: fn(&Device) -> bool) -> Option<Finding> {
    let devices: Vec<&Device> =
        topology.devices.iter().filter(|device| is(device) && !device.is_virtual_function()).collect();
    if devices.len() < 2 {
        return None;
    }
    let mut packages = BTreeSet::new();
    for device in &devices {
        let node = topology.node(device.locality.node?)?;
        packages.extend(node.packages.iter().copied());
    }
    let only = packages.first().filter(|_| packages.len() == 1)?;
    let evidence: Vec<String> = devices
        .iter()
        .filter_map(|device| Some(format!("{}: node {}", device.name(), device.locality.node?)))
        .collect();
    Some(Finding {
        severity: Severity::Note,
        rule: "devices-on-one-socket".into(),
        subject: "machine".into(),
        message: format!(
            "All {} {what} are on package {only}: programs on other packages reach them across the interconnect.",
            devices.len()
        ),
        evidence: evidence.join(", "),
        remedy: "Distribute them over slots of several packages, or run their programs on this package.".into(),
    })
}

fn is_gpu(device: &Device) -> bool {
    device.kind == DeviceKind::Gpu && matters(device)
}

fn is_interface(device: &Device) -> bool {
    let is_usb = device.class.is_some_and(|class| class >> 8 == USB) || device.path.contains("/usb");
    matches!(device.kind, DeviceKind::Network | DeviceKind::Rdma) && !is_usb
}
