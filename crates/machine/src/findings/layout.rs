//! Findings about nodes, packages and distances that describe the machine wrongly or not at all.

use crate::finding::{Finding, Severity};
use crate::ids::{NodeId, PackageId};
use crate::set::{format_nodes, CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::{kernel_options, Cache, Cpu, Distances, Node, Topology, CPUS, NODES};
use crate::units::format_size;
use std::collections::{BTreeMap, BTreeSet};

/// Number of nodes from which equal distances are unlikely: links of four sockets can be complete.
const MANY_NODES: usize = 4;

/// Local distance of ACPI's SLIT (ACPI 6.5, section 5.2.17).
const LOCAL: u32 = 10;

pub(super) fn find(root: &dyn Sysfs, topology: &Topology) -> Vec<Finding> {
    let emulated = emulated_nodes(root, topology);
    let of_nodes = match emulated.is_some() {
        true => [None, None, None],
        false => [uniform(topology), implausible(topology), spanning(topology)],
    };
    let of_machine = [hidden_nodes(root, topology), emulated].into_iter().chain(of_nodes);
    of_machine.flatten().chain(cache_domains(topology)).collect()
}

/// Reports nodes that the kernel's command line made, as that of a Raspberry Pi does by default
/// (`Documentation/admin-guide/kernel-parameters.txt`, `numa=fake`).
fn emulated_nodes(root: &dyn Sysfs, topology: &Topology) -> Option<Finding> {
    let option = kernel_options::emulating_nodes(root)?;
    Some(Finding::new(
        Severity::Note,
        "nodes-emulated",
        "machine",
        format!(
            "The kernel emulates {} nodes, as {option} requests: they have the same CPUs and distances.",
            topology.nodes.len()
        ),
        format!("/proc/cmdline: {option}"),
        format!("None for I/O; boot without {option} to see the nodes of the hardware."),
    ))
}

/// Reports several packages whose memory is shown as one node.
fn hidden_nodes(root: &dyn Sysfs, topology: &Topology) -> Option<Finding> {
    let packages: BTreeSet<PackageId> =
        topology.cpus.iter().filter(|cpu| cpu.online).filter_map(|cpu| cpu.package).collect();
    if packages.len() < 2 || topology.nodes.len() > 1 || !topology.offline_nodes.is_empty() {
        return None;
    }
    let is_guest = topology.surroundings.virtual_machine;
    let numbered =
        |cpu: &Cpu| root.value::<u32>(&format!("{CPUS}/cpu{}/topology/physical_package_id", cpu.id)).is_ok();
    // Architectures that do not number packages do not interleave nodes either.
    if !is_guest && !topology.cpus.iter().any(numbered) && !topology.cpus.is_empty() {
        return None;
    }
    let off = kernel_options::hiding_nodes(root);
    let cause = match (&off, is_guest) {
        (Some(option), _) => format!("{option} hides the nodes"),
        (None, true) => "the hypervisor describes sockets without nodes, as most do by default".to_owned(),
        (None, false) => {
            "memory is interleaved over the packages, or all share a memory controller".to_owned()
        }
    };
    let remedy = match &off {
        Some(option) => format!("Boot without {option}."),
        None => topology.surroundings.remedy(
            "Turn off node interleaving in the firmware setup, if it has this setting.",
            "None if the guest fits into one node of its host; else give it nodes",
            "<numa><cell .../></numa> below <cpu> in libvirt, -numa node in QEMU",
        ),
    };
    let cause_file = off.as_ref().map_or_else(String::new, |off| format!("; /proc/cmdline: {off}"));
    Some(Finding::new(
        if is_guest && off.is_none() { Severity::Note } else { Severity::Warning },
        "node-interleaving",
        "machine",
        format!(
            "The machine has {} packages but one node: {cause}, and no placement is possible.",
            packages.len()
        ),
        format!(
            "{NODES}/online: 1 node; cpu*/topology/physical_package_id: {} packages{cause_file}",
            packages.len()
        ),
        remedy,
    ))
}

/// Reports nodes that cut across packages: with CPUs of several packages, of which one has CPUs of
/// other nodes too.
///
/// A node of several complete packages is sound, as behind a shared front-side bus.
fn spanning(topology: &Topology) -> Option<Finding> {
    let with_cpus = || topology.nodes.iter().filter(|node| !node.cpus.is_empty());
    let is_split =
        |package: &PackageId| with_cpus().filter(|node| node.packages.contains(package)).count() > 1;
    let several =
        |node: &&Node| !node.cpus.is_empty() && node.packages.len() > 1 && node.packages.iter().any(is_split);
    let nodes: NodeSet = topology.nodes.iter().filter(several).map(|node| node.id).collect();
    let first = topology.node(nodes.first()?)?;
    let packages: Vec<String> = first.packages.iter().map(ToString::to_string).collect();
    let remedy = topology.surroundings.remedy(
        "Update the firmware; until then, trust measurements of nodes, not their packages.",
        "Give the guest sockets that match its nodes",
        "<topology> and <numa> of <cpu> in libvirt, -smp and -numa in QEMU",
    );
    Some(Finding::new(
        if topology.surroundings.virtual_machine { Severity::Note } else { Severity::Warning },
        "node-spans-packages",
        format_nodes(&nodes),
        "CPUs of one node belong to several packages: its memory is near to some of them only, or packages are wrong.",
        format!(
            "{NODES}/node{}/cpulist: {}; cpu*/topology/physical_package_id: {}",
            first.id,
            first.cpus,
            packages.join(", ")
        ),
        remedy,
    ))
}

/// Reports distances that do not distinguish the nodes with CPUs.
fn uniform(topology: &Topology) -> Option<Finding> {
    let distances = topology.distances.as_ref()?;
    let nodes: Vec<NodeId> = topology.cpu_nodes().iter().collect();
    let remote: BTreeSet<u32> = pairs(&nodes).filter_map(|(from, to)| distances.between(from, to)).collect();
    let only = remote.first().filter(|_| remote.len() == 1 && nodes.len() >= MANY_NODES)?;
    Some(Finding::new(
        Severity::Note,
        "distances-uniform",
        "machine",
        format!("Every distance between two of {} nodes is {only}: distances do not rank them.", nodes.len()),
        format!("{NODES}/node*/distance: {only}"),
        topology.surroundings.remedy(
            "Measure with numaio model --all: placements then use measured classes, not distances.",
            "Measure with numaio model --all, or give the guest the host's distances",
            "<distances> of <cell> in libvirt, -numa dist in QEMU",
        ),
    ))
}

/// Reports a node that is farther from itself than from another node, or not at the local distance.
fn implausible(topology: &Topology) -> Option<Finding> {
    let distances = topology.distances.as_ref().filter(|distances| distances.nodes.len() > 1)?;
    let node = *distances.nodes.iter().find(|node| is_implausible(distances, **node))?;
    let row: Vec<String> =
        distances.nodes.iter().filter_map(|to| distances.between(node, *to)).map(|d| d.to_string()).collect();
    Some(Finding::new(
        Severity::Warning,
        "distances-implausible",
        format!("node {node}"),
        format!("The distance from node {node} to itself is not {LOCAL}, or another node is as near."),
        format!("{NODES}/node{node}/distance: {}", row.join(" ")),
        "Measure with numaio model --all: placements then use measured classes, not distances.",
    ))
}

fn is_implausible(distances: &Distances, node: NodeId) -> bool {
    let local = distances.between(node, node);
    let others = || distances.nodes.iter().filter(|other| **other != node);
    local != Some(LOCAL) || others().any(|other| distances.between(node, *other) <= local)
}

fn pairs(nodes: &[NodeId]) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
    nodes.iter().flat_map(|from| nodes.iter().map(|to| (*from, *to))).filter(|(from, to)| from != to)
}

/// Reports nodes with several last-level caches: threads of one cache share data without memory.
fn cache_domains(topology: &Topology) -> Option<Finding> {
    let domains = |node: &Node| topology.cache_domains(&node.cpus);
    let split: Vec<(NodeId, Vec<&Cache>)> = topology
        .nodes
        .iter()
        .map(|node| (node.id, domains(node)))
        .filter(|(_, caches)| {
            caches.len() > 1 && caches.iter().any(|cache| has_several_cores(topology, cache))
        })
        .collect();
    let nodes: NodeSet = split.iter().map(|(node, _)| *node).collect();
    let (first, caches) = split.first()?;
    let mut sizes: BTreeMap<u64, CpuSet> = BTreeMap::new();
    for (_, caches) in &split {
        for cache in caches {
            let cpus = sizes.entry(cache.bytes).or_default();
            *cpus = cpus.union(&cache.cpus);
        }
    }
    let larger = match sizes.len() {
        0 | 1 => String::new(),
        _ => {
            let (bytes, cpus) = sizes.iter().next_back()?;
            format!(" The largest, {}, belongs to CPUs {cpus}.", format_size(*bytes))
        }
    };
    Some(Finding::new(
        Severity::Note,
        "cache-domains",
        format_nodes(&nodes),
        format!(
            "CPUs of one node have {} separate L{} caches: threads that share data need cores of one of them.{larger}",
            caches.len(),
            caches[0].level
        ),
        format!("CPUs of the caches of node {first}: {}", joined(caches)),
        "Keep a task within one cache: numaio place --by l3.",
    ))
}

fn has_several_cores(topology: &Topology, cache: &Cache) -> bool {
    let first = cache.cpus.first().and_then(|cpu| topology.cpu(cpu));
    first.is_some_and(|cpu| !cache.cpus.is_subset(&cpu.siblings))
}

/// Joins the CPUs of some caches, shortened if there are many.
fn joined(caches: &[&Cache]) -> String {
    const MOST: usize = 4;
    let shown: Vec<String> = caches.iter().take(MOST).map(|cache| cache.cpus.to_string()).collect();
    let more = caches.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}
