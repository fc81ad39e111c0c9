//! Kinds of memory, as far as the kernel reports them.

use super::files::{numbered, set_of, NODES};
use super::parts::Node;
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

/// Sources that identify kinds of memory.
struct Evidence {
    gpu: NodeSet,
    dax: BTreeMap<NodeId, &'static str>,
    faster: NodeSet,
    cxl_blocks: Vec<u64>,
    only_ddr: bool,
}

/// Sets the kind of memory where the kernel reports it:
///
/// - `GPU`: the NVIDIA driver names the node as its memory (`numa_status` of the GPU);
/// - `PMEM`, `CXL`: a node without CPUs is the target of a dax device below an NVDIMM bus or a CXL
///   decoder (`Documentation/ABI/testing/sysfs-bus-dax`), or a CXL region lies in its memory
///   (`Documentation/ABI/testing/sysfs-bus-cxl`);
/// - `HBM`: it is the target of specific-purpose memory (`hmem`), and in a faster tier than the
///   memory of CPUs (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`);
/// - `DRAM`: a node with CPUs, no memory-side cache, and every module of the machine is DDR by EDAC
///   (`Documentation/admin-guide/ras.rst`).
pub(super) fn fill(root: &dyn Sysfs, gpu: &BTreeMap<NodeId, NodeSet>, nodes: &mut [Node]) {
    let evidence = Evidence {
        gpu: gpu.keys().copied().collect(),
        dax: dax_targets(root),
        faster: faster_nodes(root, nodes),
        cxl_blocks: cxl_blocks(root),
        only_ddr: only_ddr(root),
    };
    for node in nodes.iter_mut().filter(|node| node.memory.is_some()) {
        node.memory_kind = evidence.kind(root, node).map(str::to_owned);
    }
}

impl Evidence {
    fn kind(&self, root: &dyn Sysfs, node: &Node) -> Option<&'static str> {
        if self.gpu.contains(node.id) {
            return Some("GPU");
        }
        if !node.cpus.is_empty() {
            return Some("DRAM").filter(|_| self.only_ddr && node.memory_side_caches.is_empty());
        }
        match self.dax.get(&node.id).copied() {
            Some("SPM") => Some("HBM").filter(|_| self.faster.contains(node.id)),
            Some(kind) => Some(kind),
            None => {
                let within = |block: &u64| root.exists(&format!("{NODES}/node{}/memory{block}", node.id));
                Some("CXL").filter(|_| self.cxl_blocks.iter().any(within))
            }
        }
    }
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

fn dax_targets(root: &dyn Sysfs) -> BTreeMap<NodeId, &'static str> {
    const DAX: &str = "/sys/bus/dax/devices";
    let target = |name: String| {
        let device = format!("{DAX}/{name}");
        let node: u32 = root.value(&format!("{device}/target_node")).ok()?;
        Some((NodeId(node), dax_kind(&root.resolve(&device).ok()?)?))
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
fn faster_nodes(root: &dyn Sysfs, nodes: &[Node]) -> NodeSet {
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
    before.flat_map(|(_, members)| members.iter()).collect()
}

/// Returns the memory blocks in which CXL regions start.
fn cxl_blocks(root: &dyn Sysfs) -> Vec<u64> {
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
    regions.iter().filter_map(start).map(|start| start / block_bytes).collect()
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
