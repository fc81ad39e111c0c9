//! Reading a topology: the order in which its parts are read.

use super::{
    caches, confinement, cpuinfo, cpus, distances, finding, identity, kinds, nodes, Topology, CPUS, NODES,
};
use crate::findings::{Finding, Severity};
use crate::ids::NodeId;
use crate::sysfs::{Sysfs, SysfsExt};

/// Reads nodes, CPUs, memory, caches, distances and confinement; leaves out devices and the fingerprint.
///
/// Never fails: what cannot be read is absent from the result or stands among its findings.
pub fn read(root: &dyn Sysfs) -> Topology {
    look(root, true)
}

/// The same without caches, which a program that is to be started does not wait for.
pub fn outline(root: &dyn Sysfs) -> Topology {
    look(root, false)
}

fn look(root: &dyn Sysfs, with_caches: bool) -> Topology {
    let cpuinfo = cpuinfo::parse(&root.optional("/proc/cpuinfo").unwrap_or_default());
    let mut findings = kernel_findings(root);
    let known = cpus::known(root, &cpuinfo);
    let (mut nodes, offline_nodes) = nodes::read(root, &known.online, &mut findings);
    let mut cpus = cpus::read(root, &known, &nodes, &cpuinfo);
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let distances = distances::read(root, &ids, &mut findings);
    let gpu_nodes = kinds::gpu_nodes(root, &nodes);
    nodes::tie_packages(&mut nodes, &cpus, &gpu_nodes, distances.as_ref());
    kinds::fill(root, &gpu_nodes, &mut nodes);
    nodes::judge(&nodes, &known.online, &mut findings);
    let confinement = confinement::read(root, &cpus, &nodes);
    confinement::judge(&confinement, &mut findings);
    for cpu in &mut cpus {
        cpu.allowed = confinement.cpus.contains(cpu.id);
    }
    for node in &mut nodes {
        node.memory_allowed = confinement.nodes.contains(node.id);
    }
    let caches = || {
        // The kernel makes a PMU of each kind of core on an Intel hybrid, whose /proc/cpuinfo tells them not apart.
        caches::read(root, &cpus, cpuinfo.alike && !root.exists("/sys/devices/cpu_core"))
    };
    Topology {
        identity: identity::read(root, &cpuinfo),
        caches: if with_caches && known.described { caches() } else { Vec::new() },
        cpu_features: cpuinfo.features,
        nodes,
        offline_nodes,
        cpus,
        distances,
        confinement,
        devices: Vec::new(),
        findings,
    }
}

/// What the kernel does not tell at all.
fn kernel_findings(root: &dyn Sysfs) -> Vec<Finding> {
    if !root.exists("/sys/devices/system") {
        return vec![finding(
            Severity::Problem,
            "no-sysfs",
            "machine",
            "There is no /sys: nodes, caches and devices cannot be seen, and node 0 is assumed.",
            "/sys/devices/system: absent".to_owned(),
            "Mount sysfs, or make it visible in the container.",
        )];
    }
    if root.exists(NODES) {
        return Vec::new();
    }
    vec![finding(
        Severity::Note,
        "no-numa-in-kernel",
        "machine",
        "The kernel tells no NUMA nodes; node 0 with all CPUs and all memory is assumed.",
        format!("{NODES}: absent, though {CPUS} is looked at"),
        "Nothing on a machine with one node; else run a kernel with CONFIG_NUMA, and do not boot it with numa=off.",
    )]
}
