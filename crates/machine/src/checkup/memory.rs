//! Memory of nodes: memory-only nodes, spilled allocations, and missing huge pages.

use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::ids::NodeId;
use crate::interleave;
use crate::set::NodeSet;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::{HugePages, Node, Topology};
use crate::units::format_size;
use std::collections::BTreeSet;

/// Minimum share of spilled allocations to report.
const SPILLED: f64 = 0.01;

/// Minimum number of spilled pages to report.
const FEW_PAGES: u64 = 4096;

/// Ratio of memory sizes from which the smaller node likely lacks modules.
const UNEVEN: f64 = 1.5;

pub(super) fn symptoms(root: &dyn Sysfs, topology: &Topology) -> Vec<Symptom> {
    if topology.memory_nodes().len() < 2 {
        return Vec::new();
    }
    // Emulated nodes are parts of one memory; a finding of the topology names their cause.
    if topology.findings.iter().any(|finding| finding.rule == "nodes-emulated") {
        return Vec::new();
    }
    let of_nodes = topology.nodes.iter().filter_map(|node| spills(root, topology, node));
    let of_machine = [demotion(root, topology), uneven(topology), interleave_weights(root, topology)];
    let of_machine = of_machine.into_iter().flatten();
    memory_only(topology).into_iter().chain(of_machine).chain(of_nodes).chain(huge_pages(topology)).collect()
}

/// Returns memory-only nodes: CXL, HBM, memory of GPUs.
fn memory_nodes(topology: &Topology) -> NodeSet {
    let alone = topology.nodes.iter().filter(|node| node.cpus.is_empty() && node.has_memory());
    alone.map(|node| node.id).collect()
}

fn memory_only(topology: &Topology) -> Vec<Symptom> {
    let gpus = |node: &NodeId| topology.node(*node).is_some_and(Node::is_gpu_memory);
    let (of_gpus, others): (Vec<NodeId>, Vec<NodeId>) = memory_nodes(topology).iter().partition(gpus);
    [of_gpus, others]
        .into_iter()
        .filter_map(|nodes| memory_only_of(topology, nodes.into_iter().collect()))
        .collect()
}

/// Reports memory-only nodes of GPUs, or of other kinds.
fn memory_only_of(topology: &Topology, nodes: NodeSet) -> Option<Symptom> {
    let first = nodes.first()?;
    let of_gpus = topology.node(first).is_some_and(Node::is_gpu_memory);
    let kinds: BTreeSet<&str> = topology
        .nodes
        .iter()
        .filter(|it| nodes.contains(it.id))
        .filter_map(|it| it.memory_kind.as_deref())
        .collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let of_kind = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let (are, them) = if nodes.len() == 1 {
        (format!("Node {nodes} is"), "it")
    } else {
        (format!("Nodes {nodes} are"), "them")
    };
    let remedy = match of_gpus {
        true => {
            "Leave it to programs of the GPU: bind other programs to nodes with CPUs, as numaio run does. numaio weights \
             leave it out."
        }
        false => {
            "Keep buffers on nodes near the device with numaio run. For programs that need more than one node's \
             bandwidth, interleave by measured bandwidth with numaio export --format weights --apply."
        }
    };
    Some(Symptom {
        finding: Finding::new(
            Severity::Note,
            "memory-only-node",
            format!("node {first}"),
            format!("{are} memory without CPUs{of_kind}: buffers are allocated on {them} when others are full, or by interleaving."),
            format!("/sys/devices/system/node/node{first}/cpulist: empty"),
            remedy,
        ),
        device: None,
        target: None,
        effect: Effect::any_of(nodes),
        fix: Fix::none(),
    })
}

/// Reports that cold pages of full nodes move to slower nodes
/// (`Documentation/ABI/testing/sysfs-kernel-mm-numa`).
fn demotion(root: &dyn Sysfs, topology: &Topology) -> Option<Symptom> {
    const FILE: &str = "/sys/kernel/mm/numa/demotion_enabled";
    let on = root.optional(FILE).filter(|text| matches!(text.as_str(), "true" | "1"))?;
    let nodes = memory_nodes(topology);
    (!nodes.is_empty()).then(|| Symptom {
        finding: Finding::new(
            Severity::Note,
            "memory-demotion",
            "machine",
            "The kernel moves cold pages of full nodes to slower memory, including buffers that wait for I/O.",
            format!("{FILE}: {on}"),
            "Turn it off if I/O buffers must stay in place.",
        ),
        device: None,
        target: None,
        effect: Effect::any_of(nodes),
        fix: Fix::one(format!("echo false > {FILE}"), format!("echo true > {FILE}")),
    })
}

/// Reports weights of interleaving that ignore the bandwidths of unlike nodes
/// (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).
fn interleave_weights(root: &dyn Sysfs, topology: &Topology) -> Option<Symptom> {
    let interleave = interleave::read(root)?;
    let data = topology.data_nodes();
    let weights: BTreeSet<u32> = interleave
        .weights
        .iter()
        .filter(|(node, _)| data.contains(**node))
        .map(|(_, weight)| *weight)
        .collect();
    let unlike = !memory_nodes(topology).intersection(&data).is_empty();
    if !unlike || weights.len() != 1 {
        return None;
    }
    let (is, remedy, fix) = match interleave.automatic.zip(interleave::automatic_path(root)) {
        Some((false, path)) => (
            "the kernel's own weights are off",
            "Set measured weights with numaio export --format weights --apply, or turn on the kernel's own, from HMAT.",
            Fix::one(format!("echo 1 > {path}"), format!("echo 0 > {path}")),
        ),
        Some((true, _)) => (
            "the kernel knows no bandwidths (HMAT) to derive them from",
            "Set measured weights with numaio export --format weights --apply.",
            Fix::none(),
        ),
        None => (
            "nothing has set them",
            "Set measured weights with numaio export --format weights --apply.",
            Fix::none(),
        ),
    };
    Some(Symptom {
        finding: Finding::new(
            Severity::Note,
            "interleave-weights-equal",
            "machine",
            format!(
                "Weighted interleave gives every node as many pages, although their memory differs: {is}."
            ),
            format!("{}/node*: equal", interleave::FOLDER),
            remedy,
        ),
        device: None,
        target: None,
        effect: Effect::Unquantified("measure each node's memory with numaio stream".to_owned()),
        fix,
    })
}

/// Reports very different memory sizes of nodes with CPUs, a sign of empty memory channels.
fn uneven(topology: &Topology) -> Option<Symptom> {
    let with_cpus = || topology.nodes.iter().filter(|node| !node.cpus.is_empty() && !node.memory_unknown);
    let bytes = |node: &Node| node.memory.map_or(0, |memory| memory.total_bytes);
    let (least, most) =
        (with_cpus().min_by_key(|node| bytes(node))?, with_cpus().max_by_key(|node| bytes(node))?);
    (bytes(least) as f64 * UNEVEN < bytes(most) as f64).then(|| Symptom {
        finding: Finding::new(
            Severity::Note,
            "memory-uneven",
            format!("node {}", least.id),
            format!(
                "Node {} has {} of memory and node {} has {}{}.",
                least.id,
                format_size(bytes(least)),
                most.id,
                format_size(bytes(most)),
                if topology.surroundings.virtual_machine {
                    ""
                } else {
                    ": empty memory channels provide no bandwidth"
                }
            ),
            [least, most].map(|it| format!("/sys/devices/system/node/node{}/meminfo", it.id)).join(", "),
            topology.surroundings.remedy(
                "Populate all memory channels of every socket equally.",
                "None if intended; else give the guest's nodes equal memory",
                "<cell> in libvirt, -numa node in QEMU",
            ),
        ),
        device: None,
        target: None,
        effect: Effect::Unquantified("measure each node's memory with numaio stream".to_owned()),
        fix: Fix::none(),
    })
}

/// Reports allocations for a node that were served by another node
/// (`Documentation/admin-guide/numastat.rst`).
fn spills(root: &dyn Sysfs, topology: &Topology, node: &Node) -> Option<Symptom> {
    let file = format!("/sys/devices/system/node/node{}/numastat", node.id);
    let text = root.optional(&file)?;
    let count = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let (here, away) = (count("numa_hit ")?, count("numa_foreign ")?);
    let share = away as f64 / here.saturating_add(away).max(1) as f64;
    (away >= FEW_PAGES && share >= SPILLED).then(|| Symptom {
        finding: Finding::new(
            Severity::Warning,
            "node-spills",
            format!("node {}", node.id),
            "Since boot, the kernel allocated part of the pages requested on this node on other nodes.",
            format!("{file}: numa_hit {here}, numa_foreign {away}: {:.0} %", share * 100.0),
            "Check free memory with numaio topology. Spread programs with numaio run --spread, or use --needs SIZE --strict \
             to fail instead of spilling.",
        ),
        device: None,
        target: Some(node.id),
        effect: Effect::AnyOf { nodes: next_best(topology, node.id), direction: None, share },
        fix: Fix::none(),
    })
}

/// Reports missing or exhausted huge pages of a node
/// (`Documentation/admin-guide/mm/hugetlbpage.rst`).
fn huge_pages(topology: &Topology) -> Vec<Symptom> {
    let sizes: BTreeSet<u64> =
        topology.nodes.iter().flat_map(|node| &node.huge_pages).map(|pool| pool.page_bytes).collect();
    sizes.into_iter().flat_map(|size| short_of(topology, size)).collect()
}

fn short_of(topology: &Topology, size: u64) -> Vec<Symptom> {
    let pool = |node: &Node| node.huge_pages.iter().find(|pool| pool.page_bytes == size).copied();
    let with_cpus = topology.nodes.iter().filter(|node| !node.cpus.is_empty() && node.has_memory());
    let pools: Vec<(NodeId, HugePages)> = with_cpus.filter_map(|node| Some((node.id, pool(node)?))).collect();
    let most = pools.iter().map(|(_, pool)| pool.total).max().unwrap_or(0);
    let short = pools.iter().filter(|(_, pool)| pool.free == 0 && most > 0);
    short.map(|(node, pool)| short_on(topology, *node, *pool, most)).collect()
}

fn short_on(topology: &Topology, node: NodeId, pool: HugePages, most: u64) -> Symptom {
    let size = format_size(pool.page_bytes);
    let file = format!(
        "/sys/devices/system/node/node{node}/hugepages/hugepages-{}kB/nr_hugepages",
        pool.page_bytes >> 10
    );
    let (severity, what, wanted) = match pool.total {
        0 => {
            let what =
                format!("Node {node} has no huge pages of {size}, though other nodes have up to {most}.");
            (Severity::Warning, what, most)
        }
        // The current users may be the only ones.
        total => {
            let what = format!("All {total} huge pages of {size} on node {node} are in use.");
            (Severity::Note, what, total.saturating_mul(2))
        }
    };
    let free = topology.node(node).and_then(|node| node.memory).map_or(0, |memory| memory.free_bytes);
    let fits = (wanted - pool.total).saturating_mul(pool.page_bytes) <= free;
    let fix = Fix::one(format!("echo {wanted} > {file}"), format!("echo {} > {file}", pool.total));
    Symptom {
        finding: Finding::new(
            severity,
            "huge-pages-short",
            format!("node {node}"),
            format!("{what} Programs that request them on this node get pages of other nodes, or none."),
            format!("{file}: {}, free_hugepages: {}", pool.total, pool.free),
            match fits {
                true => "Reserve as many as the programs near its devices need.",
                false => {
                    "Free memory on this node, then reserve as many as the programs near its devices need."
                }
            },
        ),
        device: None,
        target: Some(node),
        effect: Effect::any_of(next_best(topology, node)),
        fix: if fits { fix } else { Fix::none() },
    }
}

/// Returns the nodes on which the kernel allocates when a node is full: the nearest other nodes
/// with memory, or all of them without distances (`Documentation/mm/numa.rst`).
pub(super) fn next_best(topology: &Topology, node: NodeId) -> NodeSet {
    let others = || topology.memory_nodes().iter().filter(|other| *other != node).collect::<Vec<_>>();
    let distance = |other: NodeId| topology.distances.as_ref().and_then(|it| it.between(node, other));
    let nearest = others().into_iter().filter_map(distance).min();
    others().into_iter().filter(|other| nearest.is_none() || distance(*other) == nearest).collect()
}
