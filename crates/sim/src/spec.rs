//! The description of a machine that does not exist.

use numaio_machine::devices::{DeviceKind, PciAddress, PcieLink, Sriov};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Access, HugePages, MemorySideCache};
use numaio_machine::workload::{CopyLoop, Direction, Flow};
use serde::{Deserialize, Serialize};

/// Version of [`Spec`].
pub const SPEC_SCHEMA: &str = "numaio/spec/1";

/// A machine: what it is made of, how fast it is, how it misbehaves. All bandwidths are in bytes per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// [`SPEC_SCHEMA`].
    pub schema: String,
    /// Name of the host.
    pub name: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// Maker, as DMI tells it.
    pub vendor: String,
    /// Product, as DMI tells it.
    pub product: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Kernel release.
    pub kernel: String,
    /// Nodes by ascending id; ids may have gaps.
    pub nodes: Vec<NodeSpec>,
    /// CPUs of the nodes that are offline.
    pub offline_cpus: CpuSet,
    /// Nodes that could be there, but are not online.
    pub offline_nodes: NodeSet,
    /// `distances[i][j]`: SLIT distance from the `i`th to the `j`th node; empty if firmware tells none.
    pub distances: Vec<Vec<u32>>,
    /// Caches of CPUs.
    pub caches: Vec<CacheSpec>,
    /// Segments of the interconnect, memory controllers, and whatever else several paths share.
    pub links: Vec<LinkSpec>,
    /// One for each node with CPUs and each node with memory.
    pub paths: Vec<PathSpec>,
    /// Copy loops that its CPUs can run; `memcpy` always can.
    pub loops: Vec<CopyLoop>,
    /// Devices and the bridges above them, a bridge before what hangs under it.
    pub devices: Vec<DeviceSpec>,
    /// How measurements scatter.
    pub noise: Noise,
    /// Settings, and what else runs.
    pub conditions: ConditionsSpec,
    /// What this process may use.
    pub confinement: ConfinementSpec,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    /// Its id.
    pub id: NodeId,
    /// Its CPUs. Of `n` CPUs with `t` threads a core, the first `n / t` are first threads of a core, the next
    /// `n / t` second threads, in the order in which firmware usually numbers them.
    pub cpus: CpuSet,
    /// Hardware threads per core.
    pub threads_per_core: u32,
    /// Package of its CPUs.
    pub package: u32,
    /// Die of its CPUs within the package.
    pub die: u32,
    /// Memory in bytes; 0 for a node without.
    pub memory_bytes: u64,
    /// Free memory in bytes.
    pub free_bytes: u64,
    /// `DRAM`, `HBM`, `CXL` or `PMEM`: decides as which device memory other than DRAM is shown.
    pub memory_kind: String,
    /// Pools of reserved huge pages.
    pub huge_pages: Vec<HugePages>,
    /// What firmware says of its memory (HMAT).
    pub access: Vec<Access>,
    /// Caches in front of its memory.
    pub memory_side_caches: Vec<MemorySideCache>,
}

/// A kind of CPU cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// 1 nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Ways of associativity.
    pub ways: u32,
    /// What shares one of them.
    pub shared_by: Sharing,
}

/// CPUs that share a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// The threads of a core.
    Core,
    /// The CPUs of a node.
    Node,
    /// The CPUs of a package.
    Package,
}

/// Something that several paths share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Its name, by which paths refer to it.
    pub name: String,
    /// What it carries.
    pub bytes_per_s: f64,
}

/// What lies between the CPUs of a node and the memory of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Node of the CPUs.
    pub cpus: NodeId,
    /// Node of the memory.
    pub memory: NodeId,
    /// Most that all CPUs of the node together load from there.
    pub load_bytes_per_s: f64,
    /// Most that all CPUs of the node together store to there.
    pub store_bytes_per_s: f64,
    /// Most that one core copies by way of this path, in either direction.
    pub core_bytes_per_s: f64,
    /// Time of a load by this path while nothing else uses it, in nanoseconds.
    #[serde(default = "usual_latency_ns")]
    pub latency_ns: f64,
    /// Names of links that loads cross.
    #[serde(default)]
    pub load_links: Vec<String>,
    /// Names of links that stores cross.
    #[serde(default)]
    pub store_links: Vec<String>,
}

fn usual_latency_ns() -> f64 {
    100.0
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// What it is; [`DeviceKind::Bridge`] for ports of root complexes and switches.
    pub kind: DeviceKind,
    /// Its address.
    pub pci: PciAddress,
    /// The bridge above it; none on a root bus.
    #[serde(default)]
    pub under: Option<PciAddress>,
    /// What `numa_node` says; none for -1.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// Names a user knows: `eth0`, `nvme0n1`, `mlx5_0`, `card0`. Of an RDMA device, a second name is that of its
    /// network interface.
    #[serde(default)]
    pub names: Vec<String>,
    /// Model of a disk, or what else the driver tells.
    #[serde(default)]
    pub model: String,
    /// Driver bound to it; none leaves it without names and interrupts.
    #[serde(default)]
    pub driver: Option<String>,
    /// PCI vendor and device id.
    pub ids: (u16, u16),
    /// PCI Express link; none for a conventional function.
    #[serde(default)]
    pub link: Option<PcieLink>,
    /// Number of interrupts.
    #[serde(default)]
    pub irqs: u32,
    /// CPUs that every interrupt may go to; none spreads them over the CPUs near the device, one each.
    #[serde(default)]
    pub irq_affinity: Option<CpuSet>,
    /// Speed of a network or RDMA port in bits per second; none while it is down.
    #[serde(default)]
    pub port_bits_per_s: Option<u64>,
    /// PCI power state other than `D0`.
    #[serde(default)]
    pub power_state: Option<String>,
    /// SR-IOV.
    #[serde(default)]
    pub sriov: Option<Sriov>,
    /// How fast it moves data; none for a device that I/O cannot be tried on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoSpec>,
}

/// How fast a device moves data. The two directions do not disturb each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoSpec {
    /// Memory to device.
    pub write: IoRates,
    /// Device to memory.
    pub read: IoRates,
}

/// One direction of a device. Nodes with streams share the cap max-min fairly: in equal parts, where none gets
/// more than its path carries and what it leaves goes to the others (the same rule as the disk of lab/README.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoRates {
    /// What the path to the buffers on each node carries; one for each of the machine's nodes, in their order.
    pub nodes: Vec<f64>,
    /// What the device moves for all of them together.
    pub cap: f64,
    /// Most that one stream moves; none for no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<f64>,
}

/// How measurements scatter. The default is not at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Seed of everything random; the same seed and the same runs in the same order give the same results.
    pub seed: u64,
    /// Standard deviation of a sample's bandwidth within a run, relative to it.
    pub sample: f64,
    /// Standard deviation of a run's bandwidth, relative to it.
    pub run: f64,
    /// Probability that a run is hit by a glitch.
    pub glitch_probability: f64,
    /// Bandwidth of a run with a glitch, over its usual one.
    pub glitch_factor: f64,
    /// Flows with two levels.
    pub bimodal: Vec<Bimodal>,
    /// Change of all bandwidths per hour of the machine's time, relative; it levels off after a day.
    pub drift_per_hour: f64,
    /// Nodes whose pages partly land elsewhere.
    pub misplaced: Vec<Misplaced>,
}

/// A flow that has two levels, chosen anew in each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bimodal {
    /// From where to where.
    pub flow: Flow,
    /// The second level over the first.
    pub factor: f64,
    /// Probability of the second.
    pub probability: f64,
}

/// Pages that land on another node than asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misplaced {
    /// The node asked for.
    pub node: NodeId,
    /// The node they land on.
    pub found_on: NodeId,
    /// Share of the pages, from 0 to 1.
    pub share: f64,
}

/// Settings, and what else runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConditionsSpec {
    /// Automatic NUMA balancing; none for a kernel without.
    pub numa_balancing: Option<u32>,
    /// Share of the bandwidth that balancing costs while it is on, from 0 to below 1.
    pub balancing_cost: f64,
    /// `always`, `madvise` or `never`.
    pub transparent_huge_pages: String,
    /// Frequency governor; none for a machine without cpufreq.
    pub governor: Option<String>,
    /// Whether turbo frequencies are allowed; none if the kernel does not tell.
    pub turbo: Option<bool>,
    /// Lowest and highest frequency in MHz.
    pub frequency_mhz: (u32, u32),
    /// Whether it is a guest.
    pub virtual_machine: bool,
    /// Whether irqbalance runs.
    pub irqbalance: bool,
    /// Others' copies that run all the time.
    pub other_load: Vec<OtherLoad>,
    /// Share of the processor time that the hypervisor takes for others, from 0 to 1.
    pub stolen: f64,
}

/// Someone else's copy: it takes its fair share of the paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherLoad {
    /// From where to where.
    pub flow: Flow,
    /// CPUs, one thread each.
    pub cpus: CpuSet,
}

/// What this process may use; none is everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfinementSpec {
    /// Control group (version 2) of this process.
    pub cgroup: String,
    /// CPUs it may run on.
    pub cpus: Option<CpuSet>,
    /// Nodes it may allocate on.
    pub nodes: Option<NodeSet>,
    /// Most memory of the control group, in bytes.
    pub memory_limit_bytes: Option<u64>,
}

/// A description that is no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct BadSpec {
    /// Where in the description, as in `nodes[3].cpus`.
    pub at: String,
    /// What is wrong there.
    pub why: String,
}

impl Spec {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// If it is no JSON of this form, or describes something that cannot be; see [`Spec::check`].
    pub fn from_json(text: &str) -> Result<Self, BadSpec> {
        let bad = |why: String| BadSpec { at: "JSON".to_owned(), why };
        let spec: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    /// The description as JSON, for a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The node with an id.
    pub fn node(&self, id: NodeId) -> Option<&NodeSpec> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Nodes with CPUs.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().filter(|node| !node.cpus.is_empty())
    }

    /// Nodes with memory.
    pub fn memory_nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().filter(|node| node.memory_bytes > 0)
    }

    /// CPUs that are there, the offline ones too.
    pub fn present_cpus(&self) -> CpuSet {
        self.nodes.iter().flat_map(|node| node.cpus.iter()).collect()
    }

    /// CPUs that are online.
    pub fn online_cpus(&self) -> CpuSet {
        self.present_cpus().difference(&self.offline_cpus)
    }

    /// CPUs this process may run on.
    pub fn allowed_cpus(&self) -> CpuSet {
        let online = self.online_cpus();
        self.confinement.cpus.as_ref().map_or(online.clone(), |cpus| cpus.intersection(&online))
    }

    /// Nodes this process may allocate on.
    pub fn allowed_nodes(&self) -> NodeSet {
        let with_memory: NodeSet = self.memory_nodes().map(|node| node.id).collect();
        self.confinement.nodes.as_ref().map_or(with_memory.clone(), |nodes| nodes.intersection(&with_memory))
    }
}

impl IoSpec {
    /// One direction.
    pub fn rates(&self, direction: Direction) -> &IoRates {
        match direction {
            Direction::Write => &self.write,
            Direction::Read => &self.read,
        }
    }
}

impl NodeSpec {
    /// Its CPUs by core; the threads of a core in order.
    pub fn cores(&self) -> Vec<CpuSet> {
        let cpus: Vec<_> = self.cpus.iter().collect();
        let cores = (cpus.len() / self.threads_per_core.max(1) as usize).max(1);
        (0..cores.min(cpus.len()))
            .map(|core| cpus.iter().copied().skip(core).step_by(cores).collect())
            .collect()
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            schema: SPEC_SCHEMA.to_owned(),
            name: "simulated".to_owned(),
            architecture: "x86_64".to_owned(),
            vendor: "numaio".to_owned(),
            product: "Simulated machine".to_owned(),
            cpu_model: "Simulated CPU".to_owned(),
            kernel: "6.12.0".to_owned(),
            nodes: Vec::new(),
            offline_cpus: CpuSet::new(),
            offline_nodes: NodeSet::new(),
            distances: Vec::new(),
            caches: Vec::new(),
            links: Vec::new(),
            paths: Vec::new(),
            loops: vec![CopyLoop::Memcpy, CopyLoop::Avx2, CopyLoop::RepMovsb],
            devices: Vec::new(),
            noise: Noise::default(),
            conditions: ConditionsSpec::default(),
            confinement: ConfinementSpec::default(),
        }
    }
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            id: NodeId(0),
            cpus: CpuSet::new(),
            threads_per_core: 1,
            package: 0,
            die: 0,
            memory_bytes: 0,
            free_bytes: 0,
            memory_kind: "DRAM".to_owned(),
            huge_pages: Vec::new(),
            access: Vec::new(),
            memory_side_caches: Vec::new(),
        }
    }
}

impl Default for ConditionsSpec {
    fn default() -> Self {
        Self {
            numa_balancing: Some(0),
            balancing_cost: 0.0,
            transparent_huge_pages: "madvise".to_owned(),
            governor: Some("performance".to_owned()),
            turbo: Some(true),
            frequency_mhz: (800, 3000),
            virtual_machine: false,
            irqbalance: false,
            other_load: Vec::new(),
            stolen: 0.0,
        }
    }
}

impl Default for ConfinementSpec {
    fn default() -> Self {
        Self { cgroup: "/user.slice".to_owned(), cpus: None, nodes: None, memory_limit_bytes: None }
    }
}
