//! The description of a simulated machine.

use numaio_machine::devices::{DeviceKind, PciAddress, PcieLink, Sriov};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::{Access, HugePages, MemorySideCache};
use numaio_machine::workload::{CopyLoop, Direction, Flow};
use serde::{Deserialize, Serialize};

/// Version of [`Spec`].
pub const SPEC_SCHEMA: &str = "numaio/spec/1";

/// A machine: its parts, its speed and its disturbances. All bandwidths are in bytes per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// [`SPEC_SCHEMA`].
    pub schema: String,
    /// Name of the host.
    pub name: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// Vendor in DMI.
    pub vendor: String,
    /// Product in DMI.
    pub product: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Kernel release.
    pub kernel: String,
    /// Nodes by ascending id; ids may have gaps.
    pub nodes: Vec<NodeSpec>,
    /// CPUs of the nodes that are offline.
    pub offline_cpus: CpuSet,
    /// Possible nodes that are not online.
    pub offline_nodes: NodeSet,
    /// `distances[i][j]`: SLIT distance from the `i`th to the `j`th node; empty if firmware reports
    /// none.
    pub distances: Vec<Vec<u32>>,
    /// Caches of CPUs.
    pub caches: Vec<CacheSpec>,
    /// Interconnect segments, memory controllers and other resources that several paths share.
    pub links: Vec<LinkSpec>,
    /// One for each node with CPUs and each node with memory.
    pub paths: Vec<PathSpec>,
    /// Copy loops that its CPUs can run; `memcpy` always can.
    pub loops: Vec<CopyLoop>,
    /// Devices and bridges; a bridge precedes the devices below it.
    pub devices: Vec<DeviceSpec>,
    /// How measurements scatter.
    pub noise: Noise,
    /// Settings and other load.
    pub conditions: ConditionsSpec,
    /// The CPUs and nodes that this process may use.
    pub confinement: ConfinementSpec,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    /// Its id.
    pub id: NodeId,
    /// Its CPUs. Of `n` CPUs with `t` threads a core, the first `n / t` are first threads of a
    /// core, the next `n / t` second threads, in the order in which firmware usually numbers them.
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
    /// Firmware's figures of its memory (HMAT).
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
    /// CPUs that share one cache.
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

/// A resource that several paths share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Its name, by which paths refer to it.
    pub name: String,
    /// Bandwidth.
    pub bytes_per_s: f64,
}

/// The path between the CPUs of a node and the memory of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Node of the CPUs.
    pub cpus: NodeId,
    /// Node of the memory.
    pub memory: NodeId,
    /// Maximum for loads of all CPUs of the node together.
    pub load_bytes_per_s: f64,
    /// Maximum for stores of all CPUs of the node together.
    pub store_bytes_per_s: f64,
    /// Maximum for copies of one core over this path, in either direction.
    pub core_bytes_per_s: f64,
    /// Latency of a load over the idle path in nanoseconds.
    #[serde(default = "usual_latency_ns")]
    pub latency_ns: f64,
    /// Names of the links that loads use.
    #[serde(default)]
    pub load_links: Vec<String>,
    /// Names of the links that stores use.
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
    /// Kind of device; [`DeviceKind::Bridge`] for ports of root complexes and switches.
    pub kind: DeviceKind,
    /// Its address.
    pub pci: PciAddress,
    /// The bridge above it; none on a root bus.
    #[serde(default)]
    pub under: Option<PciAddress>,
    /// Value of `numa_node`; none for -1.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// Names in user space: `eth0`, `nvme0n1`, `mlx5_0`, `card0`. Of an RDMA device, a second name
    /// is that of its network interface.
    #[serde(default)]
    pub names: Vec<String>,
    /// Model of a disk, or another text of the driver.
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
    /// Affinity of every interrupt; none assigns one CPU near the device to each.
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
    /// I/O rates; none for a device without I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoSpec>,
}

/// I/O rates of a device. The two directions are independent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoSpec {
    /// Memory to device.
    pub write: IoRates,
    /// Device to memory.
    pub read: IoRates,
}

/// I/O rates of one direction of a device.
///
/// Nodes with streams share the device by its rule, limited by their paths and together by the cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoRates {
    /// Maximum rate of the path to buffers on each node, in the order of the machine's nodes.
    pub nodes: Vec<f64>,
    /// Maximum rate of the device for all nodes together.
    pub cap: f64,
    /// Maximum rate of one stream, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<f64>,
    /// How nodes share the device.
    #[serde(default, skip_serializing_if = "SharingRule::is_default")]
    pub sharing: SharingRule,
    /// Share of the time in which the device stalls, in bursts shorter than a sample; between them
    /// it is faster, so that the mean bandwidth stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<f64>,
    /// Whether the stream's CPU copies each byte between its buffer and memory of the device's
    /// node, as a TCP stack does. This limits a stream.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copied: bool,
}

/// How streams of several nodes share a device. The rules bind beside the paths and the cap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SharingRule {
    /// Nodes share the cap max-min fairly, whatever their number of streams (as the disk of
    /// lab/README.md does).
    #[default]
    Bytes,
    /// Streams share the cap max-min fairly: a node with more streams gets more.
    BytesByStreams,
    /// The device serves one stream at a time, for an equal time each (Equation 1 of Li et al.,
    /// ICPP 2013).
    TimeByStreams {
        /// Rates while the device serves only one node, over those of the nodes' paths.
        factor: f64,
    },
    /// The device serves one node at a time, for a time in proportion to its weight.
    TimeByNodes {
        /// As of `TimeByStreams`.
        factor: f64,
        /// Weight of each node, in the order of the machine's nodes; equal if empty.
        weights: Vec<f64>,
    },
    /// The device serves one request at a time, in turn from each stream: streams get equal bytes,
    /// and a byte of a node takes the inverse of its path's rate.
    Requests {
        /// As of `TimeByStreams`.
        factor: f64,
    },
    /// Some nodes share a link; all nodes share the cap as by `Bytes`.
    SharedLink {
        /// The nodes behind the link, by position.
        nodes: Vec<usize>,
        /// Rate of the link in bytes per second.
        bytes_per_s: f64,
    },
    /// The device holds a fixed number of requests, first come, first served; each takes the
    /// latency of its node (Little's law).
    InFlight {
        /// Requests in the device.
        requests: f64,
        /// Latency of a request by node, in seconds.
        latency_s: Vec<f64>,
    },
    /// A fixed number of cores moves the bytes; a stream uses at most one of them.
    Cores {
        /// Cores for all streams together.
        cores: f64,
        /// Bytes per second that a core moves for each node.
        core_bytes_per_s: Vec<f64>,
    },
    /// The host copies each byte through a memory that all streams share.
    Copies {
        /// Rate of all copies together, in bytes per second.
        bytes_per_s: f64,
        /// Copies of each byte by node.
        copies: Vec<f64>,
    },
    /// Both rules bind: each node gets the lesser of the two rates.
    Both {
        /// The two rules.
        rules: Vec<SharingRule>,
    },
    /// The device changes between two rules faster than it can be observed.
    Blend {
        /// Share of the time of the first rule.
        share: f64,
        /// The two rules.
        rules: Vec<SharingRule>,
    },
}

impl SharingRule {
    /// Returns whether this is the default rule, which descriptions leave out.
    pub fn is_default(&self) -> bool {
        *self == Self::Bytes
    }
}

/// Noise of measurements; none by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Seed of everything random; the same seed and the same runs in the same order give the same
    /// results.
    pub seed: u64,
    /// Standard deviation of a sample's bandwidth within a run, relative to it.
    pub sample: f64,
    /// Standard deviation of a run's bandwidth, relative to it.
    pub run: f64,
    /// Probability that a run is hit by a glitch.
    pub glitch_probability: f64,
    /// Bandwidth of a run with a glitch, relative to its usual one.
    pub glitch_factor: f64,
    /// Flows with two levels.
    pub bimodal: Vec<Bimodal>,
    /// Change of all bandwidths per hour of the machine's time, relative; constant after a day.
    pub drift_per_hour: f64,
    /// Nodes with misplaced pages.
    pub misplaced: Vec<Misplaced>,
}

/// A flow with two levels, chosen randomly in each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bimodal {
    /// Source and sink.
    pub flow: Flow,
    /// The second level relative to the first.
    pub factor: f64,
    /// Probability of the second level.
    pub probability: f64,
}

/// Pages on another node than requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misplaced {
    /// The requested node.
    pub node: NodeId,
    /// The actual node.
    pub found_on: NodeId,
    /// Share of the pages, from 0 to 1.
    pub share: f64,
}

/// Settings and other load.
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
    /// Whether turbo frequencies are allowed; none if the kernel does not report it.
    pub turbo: Option<bool>,
    /// Lowest and highest frequency in MHz.
    pub frequency_mhz: (u32, u32),
    /// Whether the machine is a virtual machine.
    pub virtual_machine: bool,
    /// Whether irqbalance runs.
    pub irqbalance: bool,
    /// Copies of other processes that run all the time.
    pub other_load: Vec<OtherLoad>,
    /// Share of the processor time that the hypervisor steals, from 0 to 1.
    pub stolen: f64,
}

/// A copy of another process, which takes its fair share of the paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherLoad {
    /// Source and sink.
    pub flow: Flow,
    /// CPUs, one thread each.
    pub cpus: CpuSet,
}

/// Resources that this process may use; none means no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfinementSpec {
    /// Control group (version 2) of this process.
    pub cgroup: String,
    /// CPUs it may run on.
    pub cpus: Option<CpuSet>,
    /// Nodes it may allocate on.
    pub nodes: Option<NodeSet>,
    /// Memory limit of the control group in bytes.
    pub memory_limit_bytes: Option<u64>,
}

/// An error in a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct BadSpec {
    /// Where in the description, as in `nodes[3].cpus`.
    pub at: String,
    /// The error.
    pub why: String,
}

impl Spec {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// The text is not JSON of this form, or the description is invalid; see [`Spec::check`].
    pub fn from_json(text: &str) -> Result<Self, BadSpec> {
        let bad = |why: String| BadSpec { at: "JSON".to_owned(), why };
        let spec: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    /// Returns the description as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the node with an id.
    pub fn node(&self, id: NodeId) -> Option<&NodeSpec> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the nodes with CPUs.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().filter(|node| !node.cpus.is_empty())
    }

    /// Returns the nodes with memory.
    pub fn memory_nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().filter(|node| node.memory_bytes > 0)
    }

    /// Returns the present CPUs, including offline ones.
    pub fn present_cpus(&self) -> CpuSet {
        self.nodes.iter().flat_map(|node| node.cpus.iter()).collect()
    }

    /// Returns the online CPUs.
    pub fn online_cpus(&self) -> CpuSet {
        self.present_cpus().difference(&self.offline_cpus)
    }

    /// Returns the CPUs that this process may run on.
    pub fn allowed_cpus(&self) -> CpuSet {
        let online = self.online_cpus();
        self.confinement.cpus.as_ref().map_or(online.clone(), |cpus| cpus.intersection(&online))
    }

    /// Returns the nodes that this process may allocate on.
    pub fn allowed_nodes(&self) -> NodeSet {
        let with_memory: NodeSet = self.memory_nodes().map(|node| node.id).collect();
        self.confinement.nodes.as_ref().map_or(with_memory.clone(), |nodes| nodes.intersection(&with_memory))
    }
}

impl IoSpec {
    /// Returns the rates of a direction.
    pub fn rates(&self, direction: Direction) -> &IoRates {
        match direction {
            Direction::Write => &self.write,
            Direction::Read => &self.read,
        }
    }
}

impl NodeSpec {
    /// Returns the CPUs by core; the threads of a core in order.
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
