//! A machine's nodes, CPUs, memory, caches and distances, and what this process may use of them.

mod caches;
mod cgroup;
mod confinement;
pub(crate) mod cpuinfo;
mod cpus;
mod distances;
mod fingerprint;
mod hmat;
mod identity;
mod kinds;
mod memory;
mod nodes;
mod read;

pub use confinement::memory_left_bytes;
pub use fingerprint::fingerprint;
pub use identity::hostname;
pub use read::{outline, read};

use crate::devices::Device;
use crate::findings::{Finding, Severity};
use crate::ids::{CpuId, Id, NodeId, PackageId};
use crate::set::{CpuSet, IdSet, NodeSet, MAX_ID};
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};

/// Where the kernel describes nodes.
const NODES: &str = "/sys/devices/system/node";
/// Where the kernel describes CPUs.
pub(crate) const CPUS: &str = "/sys/devices/system/cpu";

/// Everything known about a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Which machine it is.
    pub identity: Identity,
    /// Online nodes by ascending id; ids may have gaps. Never empty: a kernel without NUMA has node 0.
    pub nodes: Vec<Node>,
    /// Nodes the kernel could have, but that are not online.
    pub offline_nodes: NodeSet,
    /// CPUs that are present, by ascending id, the offline ones too.
    pub cpus: Vec<Cpu>,
    /// Caches of online CPUs, each once, by level.
    pub caches: Vec<Cache>,
    /// SLIT distances, if the kernel tells them.
    pub distances: Option<Distances>,
    /// What this process may use.
    pub confinement: Confinement,
    /// Devices that move data, and the bridges above them.
    pub devices: Vec<Device>,
    /// Features the CPUs have, as /proc/cpuinfo names them (`flags` or `Features`), sorted.
    pub cpu_features: Vec<String>,
    /// What looks wrong.
    pub findings: Vec<Finding>,
}

/// Which machine it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the host.
    pub hostname: String,
    /// Maker and product, from DMI or the device tree.
    pub product: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Architecture as the kernel names it: `x86_64`, `aarch64`.
    pub architecture: String,
    /// Kernel release.
    pub kernel: String,
    /// 16 hexadecimal digits over what the machine is made of (nodes, their online CPUs, distances, PCI devices); the
    /// same after a reboot with the same CPUs online, other than that of another shape of machine.
    pub fingerprint: String,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its online CPUs; empty for a node that is memory alone.
    pub cpus: CpuSet,
    /// Its memory; none for a node without.
    pub memory: Option<Memory>,
    /// Pools of reserved huge pages, by ascending page size.
    pub huge_pages: Vec<HugePages>,
    /// Packages of its CPUs; for a node without CPUs those of its nearest initiators.
    pub packages: Vec<PackageId>,
    /// Access classes 0 and 1 of HMAT, where the kernel has them
    /// (`Documentation/admin-guide/mm/numaperf.rst`).
    pub access: Vec<Access>,
    /// Memory-side caches, by level.
    pub memory_side_caches: Vec<MemorySideCache>,
    /// Whether this process may allocate here.
    pub memory_allowed: bool,
    /// What kind of memory, where the kernel tells: `DRAM`, `HBM`, `CXL`, `PMEM`, `GPU`.
    pub memory_kind: Option<String>,
}

/// Memory of a node, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Page cache that can be dropped for a new allocation (clean file pages and reclaimable slabs).
    pub reclaimable_bytes: u64,
}

/// A pool of reserved huge pages on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of one page in bytes.
    pub page_bytes: u64,
    /// Pages reserved.
    pub total: u64,
    /// Of those, free.
    pub free: u64,
}

/// Performance of a node's memory as firmware describes it (HMAT), seen from its initiators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// 0: from the nearest initiators of any kind; 1: from the nearest CPUs.
    pub class: u32,
    /// Nodes from which these figures hold.
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

/// A cache in front of a node's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySideCache {
    /// Level, 1 nearest to the memory.
    pub level: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether this process may run here.
    pub allowed: bool,
}

/// A cache of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Ways of associativity; none if unknown or fully associative.
    pub ways: Option<u32>,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// SLIT distances: 10 is local, larger is farther.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances {
    /// Nodes of rows and columns, ascending.
    pub nodes: Vec<NodeId>,
    /// `rows[i][j]`: from `nodes[i]` to `nodes[j]`.
    pub rows: Vec<Vec<u32>>,
}

/// What this process may use of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// CPUs this process may run on.
    pub cpus: CpuSet,
    /// Nodes this process may allocate on.
    pub nodes: NodeSet,
    /// Online CPUs it may not use.
    pub excluded_cpus: CpuSet,
    /// Online nodes with memory it may not use.
    pub excluded_nodes: NodeSet,
    /// The control group it is in, if that was found.
    pub cgroup: Option<String>,
    /// Bytes of memory the control group allows, if it sets a limit.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of memory that its limits leave beside what is used already; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_left_bytes: Option<u64>,
    /// What confines it, in words: `cgroup v2 /a/b (cpuset.cpus.effective)`, `affinity mask`.
    pub by: Vec<String>,
}

impl Topology {
    /// A node by id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// A CPU by id.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index])
    }

    /// Nodes with memory, ascending.
    pub fn memory_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|node| node.memory.is_some()).map(|node| node.id).collect()
    }

    /// Nodes with online CPUs, ascending.
    pub fn cpu_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect()
    }

    /// Neighbours of a node: other nodes of the same package. A node without CPUs has none and is none's.
    pub fn neighbours(&self, id: NodeId) -> NodeSet {
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

    /// One CPU of each core of a node that this process may use, the first of its hardware threads.
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

    /// Online CPUs of a node that this process may use.
    pub fn usable_cpus(&self, id: NodeId) -> CpuSet {
        let Some(node) = self.node(id) else { return CpuSet::new() };
        node.cpus.iter().filter(|cpu| self.cpu(*cpu).is_some_and(|cpu| cpu.allowed)).collect()
    }

    /// Bytes of the last-level caches that serve these CPUs together; none if no cache is known.
    pub fn last_level_cache_bytes(&self, cpus: &CpuSet) -> Option<u64> {
        let serving =
            |cache: &&Cache| cache.kind != "Instruction" && !cache.cpus.intersection(cpus).is_empty();
        let last = self.caches.iter().filter(serving).map(|cache| cache.level).max()?;
        Some(
            self.caches
                .iter()
                .filter(serving)
                .filter(|cache| cache.level == last)
                .fold(0, |sum, cache| sum.saturating_add(cache.bytes)),
        )
    }

    /// Devices attached to a node, leaving out functions that are only bridges.
    pub fn devices_on(&self, id: NodeId) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.moves_data() && device.locality.node == Some(id))
    }

    /// Nodes that have devices attached which move data.
    pub fn device_nodes(&self) -> NodeSet {
        self.devices
            .iter()
            .filter(|device| device.moves_data())
            .filter_map(|device| device.locality.node)
            .collect()
    }
}

impl Distances {
    /// Distance from one node to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let row = self.nodes.binary_search(&from).ok()?;
        let column = self.nodes.binary_search(&to).ok()?;
        self.rows.get(row)?.get(column).copied()
    }
}

/// The number in a name such as `node12`; none if it is not `prefix` and digits.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits =
        name.strip_prefix(prefix).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| *number <= MAX_ID)
}

/// The first of these files in a directory that holds a set of ids: a list, or a mask by the names of masks.
fn set_of<T: Id>(root: &dyn Sysfs, directory: &str, names: &[&str]) -> Option<IdSet<T>> {
    names.iter().find_map(|name| {
        let text = root.optional(&format!("{directory}/{name}"))?;
        match *name {
            "cpumap" | "shared_cpu_map" | "thread_siblings" | "core_cpus" | "local_cpus" => {
                IdSet::parse_mask(&text).ok()
            }
            _ => IdSet::parse_list(&text).ok(),
        }
    })
}

fn finding(
    severity: Severity,
    rule: &str,
    subject: &str,
    what: &str,
    evidence: String,
    remedy: &str,
) -> Finding {
    let [rule, subject, what, remedy] = [rule, subject, what, remedy].map(str::to_owned);
    Finding { severity, rule, subject, what, evidence, remedy }
}
