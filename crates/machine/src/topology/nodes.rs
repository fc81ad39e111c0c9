//! NUMA nodes with their CPUs, memory and packages.

use super::files::{numbered, set_of, NODES};
use super::hmat;
use super::kernel_options;
use super::memory::{huge_pages, parse_meminfo};
use super::offline_memory;
use super::parts::{Cpu, Distances, Node};
use crate::finding::{Finding, Severity};
use crate::ids::{CpuId, NodeId, PackageId};
use crate::set::{CpuSet, NodeSet};
use crate::surroundings::Surroundings;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the online nodes, ascending, and the set of possible but offline nodes
/// (`Documentation/ABI/stable/sysfs-devices-node`); packages and permissions are set later.
pub(super) fn read(
    root: &dyn Sysfs,
    online_cpus: &CpuSet,
    surroundings: &Surroundings,
    findings: &mut Vec<Finding>,
) -> (Vec<Node>, NodeSet) {
    let directories: NodeSet =
        root.names(NODES).iter().filter_map(|name| numbered(name, "node")).map(NodeId).collect();
    if directories.is_empty() {
        return (vec![assumed(root, online_cpus)], NodeSet::new());
    }
    let reported = |name: &str| {
        let text = root.optional(&format!("{NODES}/{name}"))?;
        NodeSet::parse_list(&text).ok()
    };
    // Kernels before 2.6.25 have no list; there every directory is an online node.
    let online = reported("online")
        .map(|online| online.intersection(&directories))
        .filter(|online| !online.is_empty());
    let online = online.unwrap_or(directories);
    let offline = reported("possible").unwrap_or_default().difference(&online);
    let mut claimed = BTreeMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    for id in online.iter() {
        let (node, taken) = node(root, id, online_cpus, &claimed);
        // Nodes that the kernel emulates share CPUs; another finding names this cause.
        if !taken.is_empty() && kernel_options::emulating_nodes(root).is_none() {
            findings.push(overlap(id, &taken, &claimed, surroundings));
        }
        claimed.extend(node.cpus.iter().map(|cpu| (cpu, id)));
        nodes.push(node);
    }
    if let [only] = nodes.as_mut_slice() {
        if only.memory.is_none() {
            set_memory_of_machine(root, only);
        }
    }
    let offline_memory =
        nodes.iter().filter_map(|node| offline_memory::find(root, &format!("{NODES}/node{}", node.id), node));
    findings.extend(offline_memory);
    (nodes, offline)
}

/// Returns node 0 of a kernel without NUMA: all CPUs and all memory.
fn assumed(root: &dyn Sysfs, online_cpus: &CpuSet) -> Node {
    let mut node = Node {
        cpus: online_cpus.clone(),
        memory_unknown: !online_cpus.is_empty(),
        huge_pages: huge_pages(root, "/sys/kernel/mm/hugepages"),
        ..empty(NodeId(0))
    };
    set_memory_of_machine(root, &mut node);
    node
}

/// Sets the memory of the only node: all of the machine.
fn set_memory_of_machine(root: &dyn Sysfs, node: &mut Node) {
    let total = root.optional("/proc/meminfo").and_then(|text| parse_meminfo(&text));
    node.memory_unknown &= total.is_none();
    node.memory = total.filter(|memory| memory.total_bytes > 0);
}

fn empty(id: NodeId) -> Node {
    Node {
        id,
        cpus: CpuSet::new(),
        memory: None,
        memory_unknown: false,
        huge_pages: Vec::new(),
        packages: Vec::new(),
        access: Vec::new(),
        memory_side_caches: Vec::new(),
        memory_allowed: false,
        memory_kind: None,
        memory_kind_source: None,
    }
}

/// Reads a node, and the CPUs in its list that a lower node claimed before.
fn node(
    root: &dyn Sysfs,
    id: NodeId,
    online_cpus: &CpuSet,
    claimed: &BTreeMap<CpuId, NodeId>,
) -> (Node, CpuSet) {
    let directory = format!("{NODES}/node{id}");
    let reported =
        set_of(root, &directory, &["cpulist", "cpumap"]).unwrap_or_else(|| linked_cpus(root, &directory));
    // Some kernels also list offline CPUs.
    let reported = reported.intersection(online_cpus);
    let total = parse_meminfo(&root.optional(&format!("{directory}/meminfo")).unwrap_or_default());
    let memory = total.filter(|memory| memory.total_bytes > 0);
    let taken: CpuSet = reported.iter().filter(|cpu| claimed.contains_key(cpu)).collect();
    let node = Node {
        cpus: reported.difference(&taken),
        memory,
        memory_unknown: total.is_none(),
        huge_pages: huge_pages(root, &format!("{directory}/hugepages")),
        access: hmat::access(root, id),
        memory_side_caches: hmat::memory_side_caches(root, id),
        ..empty(id)
    };
    (node, taken)
}

/// Returns the CPUs to which a node's directory has links, `cpu0`; recordings may lack its lists.
pub(crate) fn linked_cpus(root: &dyn Sysfs, directory: &str) -> CpuSet {
    root.names(directory).iter().filter_map(|name| numbered(name, "cpu")).map(CpuId).collect()
}

fn overlap(
    id: NodeId,
    taken: &CpuSet,
    claimed: &BTreeMap<CpuId, NodeId>,
    surroundings: &Surroundings,
) -> Finding {
    let owners: NodeSet = taken.iter().filter_map(|cpu| claimed.get(&cpu).copied()).collect();
    Finding::new(
        Severity::Problem,
        "overlapping-cpus",
        format!("node {id}"),
        "CPUs belong to several nodes; numaio counts them for the lowest node.",
        format!("{NODES}/node{id}/cpulist contains CPUs {taken}, which belong to node {owners}"),
        surroundings.remedy(
            "Update the firmware; until then, results for these nodes are unreliable.",
            "Results for these nodes are unreliable until each CPU of the guest is listed in one node only",
            "cpus= of <cell> in libvirt, -numa node,cpus= in QEMU",
        ),
    )
}

/// Sets the packages of every node.
///
/// They are those of its CPUs; or of its initiators (class 0, then 1); or of the nodes near its
/// GPU; or of the nearest nodes with CPUs by distance, possibly all.
pub(super) fn tie_packages(
    nodes: &mut [Node],
    cpus: &[Cpu],
    gpu_nodes: &BTreeMap<NodeId, NodeSet>,
    distances: Option<&Distances>,
) {
    let mut own: BTreeMap<NodeId, BTreeSet<PackageId>> = BTreeMap::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        if let (Some(node), Some(package)) = (cpu.node, cpu.package) {
            own.entry(node).or_default().insert(package);
        }
    }
    let with_cpus: NodeSet = nodes.iter().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
    for node in nodes.iter_mut() {
        let near_gpu = gpu_nodes.get(&node.id).map(|near| near.intersection(&with_cpus));
        let nearest = nearest_cpu_nodes(node, &with_cpus, near_gpu, distances);
        let packages: BTreeSet<PackageId> =
            nearest.iter().filter_map(|id| own.get(&id)).flatten().copied().collect();
        node.packages = packages.into_iter().collect();
    }
}

fn nearest_cpu_nodes(
    node: &Node,
    with_cpus: &NodeSet,
    near_gpu: Option<NodeSet>,
    distances: Option<&Distances>,
) -> NodeSet {
    if with_cpus.contains(node.id) {
        return NodeSet::one(node.id);
    }
    let initiators = node.access.iter().map(|access| access.initiators.intersection(with_cpus));
    if let Some(initiators) = initiators.chain(near_gpu).find(|nodes| !nodes.is_empty()) {
        return initiators;
    }
    // Both directions, because they differ on some firmware.
    let distance = |other: NodeId| {
        let distances = distances?;
        Some(u64::from(distances.between(node.id, other)?) + u64::from(distances.between(other, node.id)?))
    };
    let least = with_cpus.iter().filter_map(distance).min();
    with_cpus.iter().filter(|other| least.is_some() && distance(*other) == least).collect()
}
