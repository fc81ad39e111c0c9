//! Reading the parts of a topology in order.

use super::cgroup::Groups;
use super::cpuinfo::CpuInfo;
use super::files::{set_of, CPUS, NODES};
use super::parts::Topology;
use super::{
    caches, confinement, conflicts, core_kinds, cpuinfo, cpus, distances, identity, isolation, kinds, nodes,
};
use crate::finding::{Finding, Severity};
use crate::ids::NodeId;
use crate::set::CpuSet;
use crate::surroundings::Surroundings;
use crate::sysfs::{Sysfs, SysfsExt};

/// Reads nodes, CPUs, memory, caches, distances and confinement, without devices and the
/// fingerprint.
///
/// Never fails: unreadable files leave values out or add findings.
pub fn read(root: &dyn Sysfs) -> Topology {
    look(root, &cpuinfo::read(root), true)
}

/// Reads the same with contents of /proc/cpuinfo that the caller has read.
pub(crate) fn read_with(root: &dyn Sysfs, cpuinfo: &CpuInfo) -> Topology {
    look(root, cpuinfo, true)
}

/// Reads the topology without caches, for commands that start a program.
pub fn outline(root: &dyn Sysfs) -> Topology {
    look(root, &cpuinfo::read(root), false)
}

/// Returns the CPUs that the kernel lists as online; empty if it has no list.
pub(crate) fn listed_cpus(root: &dyn Sysfs) -> CpuSet {
    set_of(root, CPUS, &["online"]).unwrap_or_default()
}

fn look(root: &dyn Sysfs, cpuinfo: &CpuInfo, with_caches: bool) -> Topology {
    let mut findings = kernel_findings(root);
    let known = cpus::known(root, cpuinfo);
    let surroundings = Surroundings::read(root, &cpuinfo.features);
    let (mut nodes, offline_nodes) = nodes::read(root, &known.online, &surroundings, &mut findings);
    let mut cpus = cpus::read(root, &known, &nodes, cpuinfo);
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let distances = distances::read(root, &ids, &mut findings);
    let gpu_nodes = kinds::gpu_nodes(root, &nodes);
    nodes::tie_packages(&mut nodes, &cpus, &gpu_nodes, distances.as_ref());
    kinds::fill(root, &gpu_nodes, &mut nodes);
    let groups = Groups::read(root);
    let confinement = confinement::read(root, &groups, &cpus, &nodes);
    let isolated = isolation::isolated(root, &groups);
    for cpu in &mut cpus {
        cpu.allowed = confinement.cpus.contains(cpu.id);
        cpu.isolated = isolated.contains(cpu.id);
    }
    core_kinds::fill(root, &mut cpus);
    for node in &mut nodes {
        node.memory_allowed = confinement.nodes.contains(node.id);
    }
    findings.extend(conflicts::find(root, &known, &cpus, &nodes, &surroundings));
    let caches = || {
        // Intel hybrids have a PMU for each kind of core; their /proc/cpuinfo does not distinguish
        // them.
        caches::read(root, &cpus, cpuinfo.alike && !root.exists("/sys/devices/cpu_core"))
    };
    Topology {
        identity: identity::read(root, cpuinfo),
        caches: if with_caches && known.described { caches() } else { Vec::new() },
        cpu_features: cpuinfo.features.clone(),
        nodes,
        offline_nodes,
        cpus,
        distances,
        confinement,
        surroundings,
        devices: Vec::new(),
        findings,
    }
}

/// Reports missing sysfs or NUMA support.
fn kernel_findings(root: &dyn Sysfs) -> Vec<Finding> {
    if !root.exists("/sys/devices/system") {
        return vec![Finding::new(
            Severity::Problem,
            "no-sysfs",
            "machine",
            "/sys is not available: nodes, caches and devices are unknown, and node 0 is assumed.",
            "/sys/devices/system: absent".to_owned(),
            "Mount sysfs, or make it available in the container.",
        )];
    }
    if root.exists(NODES) {
        return Vec::new();
    }
    vec![Finding::new(
        Severity::Note,
        "no-numa-in-kernel",
        "machine",
        "The kernel reports no NUMA nodes; node 0 with all CPUs and all memory is assumed.",
        format!("{NODES}: absent, though {CPUS} exists"),
        "None on a machine with a single node; else boot a kernel with CONFIG_NUMA and without numa=off.",
    )]
}
