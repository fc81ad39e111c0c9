//! Findings about nodes, CPUs and the part of them that this process may use.

use crate::finding::{Finding, Severity};
use crate::ids::{CpuId, NodeId};
use crate::set::{format_nodes, CpuSet, NodeSet};
use crate::sysfs::Sysfs;
use crate::topology::{kernel_options, linked_cpus, offline_memory, Node, Topology, NODES};
use crate::units::{format_cpus, format_size};

/// Reports nodes without memory, nodes without CPUs, and CPUs without node; nodes of one kind
/// together.
pub(super) fn incomplete_nodes(root: &dyn Sysfs, topology: &Topology) -> Vec<Finding> {
    let found = [
        unknown_memory(topology),
        without_memory(root, topology),
        without_cpus(root, topology),
        empty(topology),
        orphans(topology),
    ];
    found.into_iter().flatten().collect()
}

fn nodes_with(topology: &Topology, kind: impl Fn(&Node) -> bool) -> Option<NodeSet> {
    let nodes: NodeSet = topology.nodes.iter().filter(|node| kind(node)).map(|node| node.id).collect();
    (!nodes.is_empty()).then_some(nodes)
}

/// Returns whether a node has no memory, not even offline memory, which has its own finding.
fn lacks_memory(topology: &Topology, node: &Node) -> bool {
    !node.has_memory() && !offline_memory::is_reported(&topology.findings, node)
}

fn unknown_memory(topology: &Topology) -> Option<Finding> {
    let nodes = nodes_with(topology, |node| node.memory_unknown)?;
    Some(Finding::new(
        Severity::Note,
        "node-memory-unknown",
        format_nodes(&nodes),
        "The size of its memory is unknown; placements assume that it has memory.",
        format!("{NODES}/node{}/meminfo and /proc/meminfo: absent or without MemTotal", first(&nodes)),
        "Record the machine with numaio record, or copy these files too.",
    ))
}

fn without_memory(root: &dyn Sysfs, topology: &Topology) -> Option<Finding> {
    let nodes = nodes_with(topology, |node| lacks_memory(topology, node) && !node.cpus.is_empty())?;
    let of_kernel = kernel_options::limiting_memory(root);
    let remedy = match &of_kernel {
        Some(option) => format!("Boot without {option}, or run I/O on nodes with memory."),
        None => topology.surroundings.remedy(
            "Fit memory modules to this node, or run I/O on nodes with memory.",
            "Run I/O on nodes with memory, or give the guest's node memory",
            "memory= of <cell> in libvirt",
        ),
    };
    let cause = of_kernel.as_ref().map_or_else(String::new, |option| format!("{option} limits memory. "));
    let file = of_kernel.map_or_else(String::new, |option| format!("; /proc/cmdline: {option}"));
    Some(Finding::new(
        Severity::Warning,
        "node-without-memory",
        format_nodes(&nodes),
        format!("{cause}The node has no memory: its programs use memory of other nodes."),
        format!("{NODES}/node{}/meminfo: MemTotal is 0{file}", first(&nodes)),
        remedy,
    ))
}

/// Reports nodes of memory only, and nodes whose CPUs are offline or left out by an option.
///
/// Nodes that the kernel emulates are a finding of their own.
fn without_cpus(root: &dyn Sysfs, topology: &Topology) -> Option<Finding> {
    let nodes = nodes_with(topology, |node| node.has_memory() && node.cpus.is_empty())?;
    if kernel_options::emulating_nodes(root).is_some() {
        return None;
    }
    let offline: CpuSet = nodes.iter().flat_map(|node| offline_cpus(root, topology, node)).collect();
    let option = kernel_options::limiting_cpus(root);
    let file = option.as_ref().map_or_else(String::new, |option| format!("; /proc/cmdline: {option}"));
    let (message, remedy) = match option {
        _ if !offline.is_empty() => (
            format!("The CPUs of the node, {offline}, are offline."),
            format!(
                "Set them online as root, if programs near its devices need them: chcpu --enable {offline}"
            ),
        ),
        Some(option) => (
            format!("The node has no online CPUs, and {option} limits the CPUs of the machine."),
            format!("Boot without {option}, unless the node is memory only."),
        ),
        None => (
            "The node has no online CPUs: it is memory only, or an initiator other than a CPU.".to_owned(),
            "None; threads on other nodes use its memory.".to_owned(),
        ),
    };
    Some(Finding::new(
        Severity::Note,
        "node-without-cpus",
        format_nodes(&nodes),
        message,
        format!("{NODES}/node{}/cpulist contains no online CPU{file}", first(&nodes)),
        remedy,
    ))
}

/// Returns the offline CPUs to which a node's directory has links.
fn offline_cpus(root: &dyn Sysfs, topology: &Topology, node: NodeId) -> Vec<CpuId> {
    let linked = linked_cpus(root, &format!("{NODES}/node{node}"));
    let is_offline = |id: &CpuId| topology.cpu(*id).is_some_and(|cpu| !cpu.online);
    linked.iter().filter(is_offline).collect()
}

/// Reports placeholders: a GPU with coherent memory has one for each of its partitions
/// (<https://docs.nvidia.com/datacenter/tesla/mig-user-guide>), and memory can be plugged in later.
fn empty(topology: &Topology) -> Option<Finding> {
    let nodes = nodes_with(topology, |node| lacks_memory(topology, node) && node.cpus.is_empty())?;
    Some(Finding::new(
        Severity::Note,
        "node-empty",
        format_nodes(&nodes),
        "The node has neither CPUs nor memory: a placeholder for memory of a GPU or for memory that is added later.",
        format!("{NODES}/node{}: no CPU in cpulist, no memory in meminfo", first(&nodes)),
        "None; numaio leaves it out.",
    ))
}

fn first(nodes: &NodeSet) -> String {
    nodes.first().map(|node| node.to_string()).unwrap_or_default()
}

fn orphans(topology: &Topology) -> Option<Finding> {
    let owned: CpuSet = topology.nodes.iter().flat_map(|node| node.cpus.iter()).collect();
    let online: CpuSet = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let orphans = online.difference(&owned);
    (!orphans.is_empty()).then(|| {
        Finding::new(
            Severity::Warning,
            "cpus-without-node",
            "machine",
            "Some online CPUs belong to no online node; placements exclude them.",
            format!("CPUs {orphans} are in no {NODES}/node*/cpulist"),
            topology.surroundings.remedy(
                "Set their node online, or update the firmware.",
                "List every CPU of the guest in a node",
                "cpus= of <cell> in libvirt, -numa node,cpus= in QEMU",
            ),
        )
    })
}

/// Reports excluded CPUs and memory, and limits of memory and CPU time.
pub(super) fn confined(topology: &Topology) -> Option<Finding> {
    let confinement = &topology.confinement;
    if confinement.sources.is_empty() {
        return None;
    }
    let excluded = |what: &str, set: String| (!set.is_empty()).then(|| format!("may not use {what} {set}"));
    let time = confinement.cpu_quota.as_ref().map(|quota| quota.cpus());
    let time = time.filter(|cpus| *cpus < confinement.cpus.len() as f64);
    let isolated = topology.isolated_cpus();
    let parts = [
        excluded("CPUs", confinement.excluded_cpus.difference(&isolated).to_string()),
        excluded("isolated CPUs", confinement.excluded_cpus.intersection(&isolated).to_string()),
        excluded("memory of nodes", confinement.excluded_nodes.to_string()),
        time.map(|cpus| format!("may use the CPU time of {}", format_cpus(cpus))),
        confinement.memory_limit_bytes.map(|bytes| format!("may use {} of memory", format_size(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let is_isolation = parts.len() == 1
        && !confinement.excluded_cpus.is_empty()
        && confinement.excluded_cpus.is_subset(&isolated);
    Some(Finding::new(
        Severity::Note,
        "confined",
        "machine",
        format!("This process {}.", parts.join(" and ")),
        confinement.sources.join("; "),
        match topology.surroundings.container.as_deref() {
            _ if is_isolation => {
                "None: these CPUs are isolated (isolcpus, nohz_full or an isolated cpuset). Programs use them by an \
                 explicit affinity, as numaio run sets it."
            }
            Some("kubernetes") => "Raise resources.limits of the container to measure the complete machine.",
            Some("docker" | "podman") => {
                "Start the container without --cpuset-cpus, --cpuset-mems, --cpus and --memory to measure the \
                 complete machine."
            }
            Some("lxc") => "Remove limits.cpu and limits.memory of the container to measure the complete machine.",
            _ => "Run outside the container, job or cpuset to access and measure the complete machine.",
        },
    ))
}
