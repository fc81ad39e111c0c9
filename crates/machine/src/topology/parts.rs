//! Types of the parts of a machine.

use crate::devices::Device;
use crate::finding::Finding;
use crate::ids::{CpuId, NodeId, PackageId};
use crate::set::{CpuSet, NodeSet};
use crate::surroundings::Surroundings;
use serde::{Deserialize, Serialize};

/// Complete description of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Topology {
    /// Identity of the machine.
    pub identity: Identity,
    /// Online nodes by ascending id, possibly with gaps; never empty: without NUMA there is node 0.
    pub nodes: Vec<Node>,
    /// Possible nodes that are offline.
    pub offline_nodes: NodeSet,
    /// Present CPUs by ascending id, including offline CPUs.
    pub cpus: Vec<Cpu>,
    /// Caches of online CPUs, each once, by level.
    pub caches: Vec<Cache>,
    /// SLIT distances, if the kernel reports them.
    pub distances: Option<Distances>,
    /// Part of the machine that this process may use.
    pub confinement: Confinement,
    /// Where this process runs: bare metal, virtual machine, container.
    #[serde(default)]
    pub surroundings: Surroundings,
    /// Devices that move data, and the bridges above them.
    pub devices: Vec<Device>,
    /// CPU features from /proc/cpuinfo (`flags` or `Features`), sorted.
    pub cpu_features: Vec<String>,
    /// Suspicious conditions.
    pub findings: Vec<Finding>,
}

/// Identity of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Identity {
    /// Host name.
    pub hostname: String,
    /// Vendor and product, from DMI or the device tree.
    pub product: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Architecture, as named by the kernel: `x86_64`, `aarch64`.
    pub architecture: String,
    /// Kernel release.
    pub kernel: String,
    /// 16 hexadecimal digits that identify the composition: nodes with their online CPUs,
    /// distances, PCI devices.
    ///
    /// The same after a reboot with the same online CPUs; different for a machine of another
    /// composition.
    pub fingerprint: String,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its online CPUs; empty for a memory-only node.
    pub cpus: CpuSet,
    /// Its memory, if any and known.
    pub memory: Option<Memory>,
    /// Whether the kernel's files do not contain its memory, as in recordings of CPUs only. The
    /// node is then assumed to have memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub memory_unknown: bool,
    /// Pools of reserved huge pages, by ascending page size.
    pub huge_pages: Vec<HugePages>,
    /// Packages of its CPUs; for a node without CPUs those of its nearest initiators.
    pub packages: Vec<PackageId>,
    /// Access classes 0 and 1 of HMAT, if the kernel reports them
    /// (`Documentation/admin-guide/mm/numaperf.rst`).
    pub access: Vec<Access>,
    /// Memory-side caches, by level.
    pub memory_side_caches: Vec<MemorySideCache>,
    /// Whether this process may allocate here.
    pub memory_allowed: bool,
    /// Kind of memory, if the kernel reports it: `DRAM`, `HBM`, `CXL`, `PMEM`, `GPU`.
    pub memory_kind: Option<String>,
    /// The identification of the kind: `HMAT access class 1`, `memory_tier2`, `dax0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_kind_source: Option<String>,
}

/// Memory of a node, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Total.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Page cache that can be dropped for a new allocation (clean file pages and reclaimable
    /// slabs).
    pub reclaimable_bytes: u64,
}

/// A pool of reserved huge pages on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct HugePages {
    /// Size of one page in bytes.
    pub page_bytes: u64,
    /// Number of reserved pages.
    pub total: u64,
    /// Number of free reserved pages.
    pub free: u64,
}

/// Firmware-reported performance of a node's memory (HMAT), from its initiators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Access {
    /// 0: from the nearest initiators of any kind; 1: from the nearest CPUs.
    pub class: u32,
    /// Nodes to which these values apply.
    pub initiators: NodeSet,
    /// Read bandwidth in bytes per second.
    pub read_bytes_per_s: Option<f64>,
    /// Write bandwidth in bytes per second.
    pub write_bytes_per_s: Option<f64>,
    /// Read latency in nanoseconds.
    pub read_latency_ns: Option<u64>,
    /// Write latency in nanoseconds.
    pub write_latency_ns: Option<u64>,
}

/// A memory-side cache of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MemorySideCache {
    /// Level; 1 is nearest to the memory.
    pub level: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its id.
    pub id: CpuId,
    /// Whether it is online.
    pub online: bool,
    /// Its node.
    pub node: Option<NodeId>,
    /// Its package.
    pub package: Option<PackageId>,
    /// Its die, unique within the package.
    pub die: Option<u32>,
    /// Its core, unique within the package.
    pub core: Option<u32>,
    /// Hardware threads of its core, itself included.
    pub siblings: CpuSet,
    /// Whether this process may run on it.
    pub allowed: bool,
    /// Whether it is left to special programs: isolcpus, nohz_full or an isolated cpuset partition.
    #[serde(default, skip_serializing_if = "is_false")]
    pub isolated: bool,
    /// Its kind, on a machine with several kinds of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_kind: Option<CoreKind>,
}

/// A kind of core, on a machine with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub struct CoreKind {
    /// 0 for the fastest kind.
    pub rank: u32,
    /// Relative performance, 1024 for the fastest kind; `None` if the kernel does not report it.
    pub capacity: Option<u32>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A CPU cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Level; 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Line size in bytes.
    pub line_bytes: u32,
    /// Ways of associativity; none if unknown or fully associative.
    pub ways: Option<u32>,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// SLIT distances: 10 is local, larger is farther.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Distances {
    /// Nodes of rows and columns, ascending.
    pub nodes: Vec<NodeId>,
    /// `rows[i][j]` is the distance from `nodes[i]` to `nodes[j]`.
    pub rows: Vec<Vec<u32>>,
}

/// Part of the machine that this process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Confinement {
    /// CPUs on which this process may run.
    pub cpus: CpuSet,
    /// Nodes on which this process may allocate.
    pub nodes: NodeSet,
    /// Online CPUs that it may not use.
    pub excluded_cpus: CpuSet,
    /// Online nodes with memory that it may not use.
    pub excluded_nodes: NodeSet,
    /// Its control group, if known.
    pub cgroup: Option<String>,
    /// Memory limit of the control group in bytes, if any.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes available below the limits; `None` without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_left_bytes: Option<u64>,
    /// Lowest limit of CPU time of the control group and its ancestors, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<CpuQuota>,
    /// Sources of the restrictions: `cgroup v2 /a/b (cpuset.cpus.effective)`, `affinity mask`.
    pub sources: Vec<String>,
}

/// A limit of CPU time (`Documentation/scheduler/sched-bwc.rst`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CpuQuota {
    /// CPU time per period, in microseconds.
    pub quota_us: u64,
    /// The period in microseconds.
    pub period_us: u64,
    /// The file that sets it.
    pub file: String,
}

impl CpuQuota {
    /// Returns the number of CPUs whose time the group may use.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

impl Node {
    /// Returns whether it has memory, or is assumed to have memory of unknown size.
    pub fn has_memory(&self) -> bool {
        self.memory.is_some() || self.memory_unknown
    }

    /// Returns whether its memory is that of a GPU: the GPU's programs own it, ordinary pages there
    /// are slow, and a reset of the GPU can lose them.
    pub fn is_gpu_memory(&self) -> bool {
        self.memory_kind.as_deref() == Some("GPU")
    }
}

impl Topology {
    /// Returns a node by id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns a CPU by id.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index])
    }

    /// Returns the nodes, ascending, with their online CPUs.
    pub fn cpus_by_node(&self) -> Vec<(NodeId, &CpuSet)> {
        self.nodes.iter().map(|node| (node.id, &node.cpus)).collect()
    }

    /// Returns the nodes with memory, ascending.
    pub fn memory_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|node| node.has_memory()).map(|node| node.id).collect()
    }

    /// Returns the nodes with online CPUs, ascending.
    pub fn cpu_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect()
    }

    /// Returns the nodes with memory and without online CPUs, ascending.
    pub fn memory_only_nodes(&self) -> NodeSet {
        self.memory_nodes().difference(&self.cpu_nodes())
    }

    /// Returns a node's neighbors: other nodes with CPUs of the same package; none for a node
    /// without CPUs.
    pub fn neighbors(&self, id: NodeId) -> NodeSet {
        let Some(node) = self.node(id).filter(|node| !node.cpus.is_empty()) else {
            return NodeSet::new();
        };
        self.nodes
            .iter()
            .filter(|other| other.id != id && !other.cpus.is_empty())
            .filter(|other| other.packages.iter().any(|package| node.packages.contains(package)))
            .map(|other| other.id)
            .collect()
    }

    /// Returns the first hardware thread of each core of a node that this process may use.
    pub fn cores(&self, id: NodeId) -> CpuSet {
        let usable = self.usable_cpus(id);
        usable
            .iter()
            .filter(|cpu| {
                let siblings =
                    self.cpu(*cpu).map(|cpu| cpu.siblings.intersection(&usable)).unwrap_or_default();
                siblings.first().is_none_or(|first| first == *cpu)
            })
            .collect()
    }

    /// Returns the online CPUs of a node that this process may use.
    pub fn usable_cpus(&self, id: NodeId) -> CpuSet {
        let Some(node) = self.node(id) else { return CpuSet::new() };
        node.cpus.iter().filter(|cpu| self.cpu(*cpu).is_some_and(|cpu| cpu.allowed)).collect()
    }

    /// Returns the isolated online CPUs; see [`Cpu::isolated`].
    pub fn isolated_cpus(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online && cpu.isolated).map(|cpu| cpu.id).collect()
    }

    /// Returns the nodes for ordinary data of programs: those with memory that is not a GPU's.
    pub fn data_nodes(&self) -> NodeSet {
        let with_memory = self.nodes.iter().filter(|node| node.has_memory());
        with_memory.filter(|node| !node.is_gpu_memory()).map(|node| node.id).collect()
    }

    /// Returns the last-level data caches of some CPUs, by first CPU; empty if no cache is known.
    pub fn cache_domains(&self, cpus: &CpuSet) -> Vec<&Cache> {
        let serves = |cache: &Cache| cache.kind != "Instruction" && cache.cpus.intersects(cpus);
        let mut last = None;
        // From the last level down: then most caches are excluded by their level.
        for cache in self.caches.iter().rev() {
            if Some(cache.level) > last && serves(cache) {
                last = Some(cache.level);
            }
        }
        let of_last = self.caches.iter().filter(|cache| Some(cache.level) == last);
        let mut domains: Vec<&Cache> = of_last.filter(|cache| serves(cache)).collect();
        domains.sort_by_key(|cache| cache.cpus.first());
        domains
    }

    /// Returns the total size of the last-level caches of these CPUs; `None` if no cache is known.
    pub fn last_level_cache_bytes(&self, cpus: &CpuSet) -> Option<u64> {
        let domains = self.cache_domains(cpus);
        (!domains.is_empty()).then(|| domains.iter().fold(0u64, |sum, cache| sum.saturating_add(cache.bytes)))
    }

    /// Returns the index of the device of a sysfs path: the nearest parent that moves data.
    pub fn device_at(&self, path: &str) -> Option<usize> {
        let holds = |device: &Device| {
            let rest = path.strip_prefix(device.path.as_str());
            device.moves_data() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let devices = self.devices.iter().enumerate();
        let held = devices.filter(|(_, device)| holds(device));
        held.max_by_key(|(_, device)| device.path.len()).map(|(index, _)| index)
    }

    /// Iterates over the devices attached to a node, except bridges.
    pub fn devices_on(&self, id: NodeId) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.moves_data() && device.locality.node == Some(id))
    }

    /// Returns the nodes with attached devices that move data.
    pub fn device_nodes(&self) -> NodeSet {
        self.devices
            .iter()
            .filter(|device| device.moves_data())
            .filter_map(|device| device.locality.node)
            .collect()
    }
}

impl Distances {
    /// Returns the distance from one node to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let row = self.nodes.binary_search(&from).ok()?;
        let column = self.nodes.binary_search(&to).ok()?;
        self.rows.get(row)?.get(column).copied()
    }
}
