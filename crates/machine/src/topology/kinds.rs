//! Kinds of memory, as far as the kernel reports them.

use super::files::{numbered, set_of, NODES};
use super::parts::{Access, Node};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

/// Ratio of bandwidths from which memory is another kind than the memory of CPUs.
const FASTER: f64 = 1.5;

/// A kind of memory and what identifies it.
type Kind = (&'static str, String);

/// Sources that identify kinds of memory.
struct Evidence {
    gpu: NodeSet,
    /// Highest read bandwidth of a node with CPUs from itself, by HMAT.
    of_cpus_bytes_per_s: Option<f64>,
    /// Nodes in a faster tier than the memory of all CPUs, with the tier's name.
    faster: BTreeMap<NodeId, String>,
    dax: BTreeMap<NodeId, (&'static str, String)>,
    cxl_blocks: Vec<(u64, String)>,
    only_ddr: bool,
}

/// Sets the kind of memory where the kernel reports it, and the source:
///
/// - `GPU`: the NVIDIA driver names the node as its memory (`numa_status` of the GPU);
/// - `HBM`: memory without CPUs whose bandwidth in HMAT is at least 1.5 times that of the memory of
///   CPUs, or which is in a faster tier
///   (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`);
/// - `PMEM`, `CXL`: it is the target of a dax device below an NVDIMM bus or a CXL decoder
///   (`Documentation/ABI/testing/sysfs-bus-dax`), or a CXL region lies in it
///   (`Documentation/ABI/testing/sysfs-bus-cxl`);
/// - `DRAM`: a node with CPUs beside HBM, or without a memory-side cache on a machine whose modules
///   all are DDR by EDAC (`Documentation/admin-guide/ras.rst`).
pub(super) fn fill(root: &dyn Sysfs, gpu: &BTreeMap<NodeId, NodeSet>, nodes: &mut [Node]) {
    let evidence = Evidence {
        gpu: gpu.keys().copied().collect(),
        of_cpus_bytes_per_s: of_cpus(nodes),
        faster: faster_nodes(root, nodes),
        dax: dax_targets(root),
        cxl_blocks: cxl_blocks(root),
        only_ddr: only_ddr(root),
    };
    let kinds: Vec<Option<Kind>> = nodes.iter().map(|node| evidence.kind(root, node)).collect();
    let by_hmat =
        |kind: &Option<Kind>| kind.as_ref().is_some_and(|(kind, by)| *kind == "HBM" && by.starts_with(HMAT));
    let beside_hbm = kinds.iter().any(by_hmat);
    for (node, kind) in nodes.iter_mut().zip(kinds) {
        let is_slower = beside_hbm && !node.cpus.is_empty() && own_bandwidth(node).is_some();
        let kind = kind.or_else(|| is_slower.then(|| ("DRAM", format!("{HMAT} 0"))));
        if let Some((kind, source)) = kind.filter(|_| node.memory.is_some()) {
            (node.memory_kind, node.memory_kind_source) = (Some(kind.to_owned()), Some(source));
        }
    }
}

/// Source of a kind by bandwidth, before the number of the access class.
const HMAT: &str = "HMAT access class";

impl Evidence {
    fn kind(&self, root: &dyn Sysfs, node: &Node) -> Option<Kind> {
        if self.gpu.contains(node.id) {
            return Some(("GPU", "NVIDIA driver".to_owned()));
        }
        if !node.cpus.is_empty() {
            let is_dram = self.only_ddr && node.memory_side_caches.is_empty();
            return is_dram.then(|| ("DRAM", "EDAC".to_owned()));
        }
        self.by_bandwidth(node).or_else(|| self.by_tier(node)).or_else(|| self.by_dax(root, node))
    }

    fn by_bandwidth(&self, node: &Node) -> Option<Kind> {
        let of_cpus = self.of_cpus_bytes_per_s?;
        let is_faster = |access: &&Access| access.read_bytes_per_s.is_some_and(|own| own >= of_cpus * FASTER);
        let access = node.access.iter().rev().find(is_faster)?;
        Some(("HBM", format!("{HMAT} {}", access.class)))
    }

    fn by_tier(&self, node: &Node) -> Option<Kind> {
        self.faster.get(&node.id).map(|tier| ("HBM", tier.clone()))
    }

    fn by_dax(&self, root: &dyn Sysfs, node: &Node) -> Option<Kind> {
        match self.dax.get(&node.id) {
            // Specific-purpose memory can be of any kind.
            Some(("SPM", _)) => None,
            Some((kind, name)) => Some((kind, name.clone())),
            None => {
                let within = |(block, _): &&(u64, String)| {
                    root.exists(&format!("{NODES}/node{}/memory{block}", node.id))
                };
                self.cxl_blocks.iter().find(within).map(|(_, region)| ("CXL", region.clone()))
            }
        }
    }
}

/// Returns the read bandwidth of a node's memory from its own CPUs.
fn own_bandwidth(node: &Node) -> Option<f64> {
    let own = node.access.iter().filter(|access| access.initiators.contains(node.id));
    own.filter_map(|access| access.read_bytes_per_s).reduce(f64::max)
}

fn of_cpus(nodes: &[Node]) -> Option<f64> {
    nodes.iter().filter(|node| !node.cpus.is_empty()).filter_map(own_bandwidth).reduce(f64::max)
}

/// Returns the memory nodes of NVIDIA GPUs, with the nodes near the GPU's PCI slot, if known.
pub(super) fn gpu_nodes(root: &dyn Sysfs, nodes: &[Node]) -> BTreeMap<NodeId, NodeSet> {
    const GPUS: &str = "/proc/driver/nvidia/gpus";
    let gpu = |address: String| {
        let node = parse_numa_status(&root.optional(&format!("{GPUS}/{address}/numa_status"))?)?;
        Some((node, nodes_near(root, &format!("/sys/bus/pci/devices/{address}"), nodes)))
    };
    root.names(GPUS).into_iter().filter_map(gpu).collect()
}

/// Returns the nodes near a PCI device: its `numa_node`, or else those of its local CPUs
/// (`Documentation/ABI/testing/sysfs-bus-pci`).
fn nodes_near(root: &dyn Sysfs, device: &str, nodes: &[Node]) -> NodeSet {
    if let Ok(node) = root.value::<u32>(&format!("{device}/numa_node")) {
        return NodeSet::one(NodeId(node));
    }
    let local: CpuSet = set_of(root, device, &["local_cpulist", "local_cpus"]).unwrap_or_default();
    nodes.iter().filter(|node| !node.cpus.intersection(&local).is_empty()).map(|node| node.id).collect()
}

/// Parses the line `Node:      255`.
fn parse_numa_status(text: &str) -> Option<NodeId> {
    let value = text.lines().find_map(|line| line.strip_prefix("Node:"))?;
    value.trim().parse().ok().map(NodeId)
}

fn dax_targets(root: &dyn Sysfs) -> BTreeMap<NodeId, (&'static str, String)> {
    const DAX: &str = "/sys/bus/dax/devices";
    let target = |name: String| {
        let device = format!("{DAX}/{name}");
        let node: u32 = root.value(&format!("{device}/target_node")).ok()?;
        Some((NodeId(node), (dax_kind(&root.resolve(&device).ok()?)?, name)))
    };
    root.names(DAX).into_iter().filter_map(target).collect()
}

fn dax_kind(path: &str) -> Option<&'static str> {
    let below = |prefix: &str| path.split('/').any(|part| part.starts_with(prefix));
    if below("ndbus") {
        Some("PMEM")
    } else if below("decoder") {
        Some("CXL")
    } else if below("hmem") {
        Some("SPM")
    } else {
        None
    }
}

/// Returns nodes in a faster tier than all nodes with CPUs; lower numbers are faster.
fn faster_nodes(root: &dyn Sysfs, nodes: &[Node]) -> BTreeMap<NodeId, String> {
    const TIERS: &str = "/sys/devices/virtual/memory_tiering";
    let mut tiers: Vec<(u32, NodeSet)> = Vec::new();
    for name in root.names(TIERS) {
        let members = set_of(root, &format!("{TIERS}/{name}"), &["nodelist"]);
        tiers.extend(numbered(&name, "memory_tier").zip(members));
    }
    let of_cpus =
        |members: &NodeSet| nodes.iter().any(|node| !node.cpus.is_empty() && members.contains(node.id));
    let first = tiers.iter().filter(|(_, members)| of_cpus(members)).map(|(tier, _)| *tier).min();
    let before = tiers.iter().filter(|(tier, _)| first.is_some_and(|first| *tier < first));
    let named = |(tier, members): &(u32, NodeSet)| {
        members.iter().map(|node| (node, format!("memory_tier{tier}"))).collect::<Vec<_>>()
    };
    before.flat_map(named).collect()
}

/// Returns the memory blocks in which CXL regions start, with the names of the regions.
fn cxl_blocks(root: &dyn Sysfs) -> Vec<(u64, String)> {
    const CXL: &str = "/sys/bus/cxl/devices";
    let hexadecimal = |path: &str| {
        let text = root.optional(path)?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let regions: Vec<String> =
        root.names(CXL).into_iter().filter(|name| numbered(name, "region").is_some()).collect();
    if regions.is_empty() {
        return Vec::new();
    }
    let Some(block_bytes) =
        hexadecimal("/sys/devices/system/memory/block_size_bytes").filter(|bytes| *bytes > 0)
    else {
        return Vec::new();
    };
    let start = |region: &String| hexadecimal(&format!("{CXL}/{region}/resource"));
    regions.iter().filter_map(|region| Some((start(region)? / block_bytes, region.clone()))).collect()
}

/// Returns whether memory modules are known, and all are DDR.
fn only_ddr(root: &dyn Sysfs) -> bool {
    const CONTROLLERS: &str = "/sys/devices/system/edac/mc";
    let mut types = Vec::new();
    for controller in root.names(CONTROLLERS).iter().filter(|name| numbered(name, "mc").is_some()) {
        for module in root.names(&format!("{CONTROLLERS}/{controller}")) {
            let is_module = numbered(&module, "dimm").or_else(|| numbered(&module, "rank")).is_some();
            let path = format!("{CONTROLLERS}/{controller}/{module}/dimm_mem_type");
            types.extend(is_module.then(|| root.optional(&path)).flatten());
        }
    }
    !types.is_empty() && types.iter().all(|kind| kind.contains("DDR"))
}
