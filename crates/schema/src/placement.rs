//! Placement of the tasks of a program, with reasons.

use crate::{DeviceExpectation, MachineSource};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Identity;
use numaio_machine::workload::{Direction, MemoryBinding};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A placement of the tasks of a program.
///
/// It records the identity of its machine and is rejected on any other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlacementPlan {
    /// [`PLACEMENT_SCHEMA`](crate::PLACEMENT_SCHEMA).
    pub schema: String,
    /// Version of numaio that created it.
    pub numaio: String,
    /// Time of creation in seconds since 1970.
    pub created_at: u64,
    /// The machine.
    pub machine: Identity,
    /// Whether the source was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// The request.
    pub request: PlacementRequest,
    /// The resolved devices.
    pub targets: Vec<PlacementTarget>,
    /// The placement of each task.
    pub tasks: Vec<TaskPlacement>,
    /// The reasons for these nodes, as text.
    pub reasons: Vec<String>,
    /// Rejected nodes, with reasons.
    pub rejected: Vec<RejectedNode>,
    /// Requirements that no placement can meet, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compromises: Vec<String>,
}

/// A request for a placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlacementRequest {
    /// The handles, as typed.
    pub near: Vec<String>,
    /// Number of tasks; `None` for one program with its own threads.
    pub tasks: Option<u32>,
    /// Cores per task; a single program gets all suitable cores.
    pub cores_per_task: u32,
    /// Handles of devices that transfer at the same time, as typed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// The relevant direction; `None` for both.
    pub direction: Option<Direction>,
    /// Whether tasks are spread over all nodes of the best class.
    pub spread: bool,
    /// The property to optimize.
    pub hint: PlacementHint,
    /// Whether memory is strictly bound to its nodes.
    pub strict: bool,
    /// Whether pages are interleaved over all nodes with memory, by the kernel's weights; without
    /// memory of GPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weights: bool,
    /// Which kind of cores comes first, on machines with several.
    #[serde(default, skip_serializing_if = "CoreOrder::is_default")]
    pub core_order: CoreOrder,
    /// Whether the cores of a task share a last-level cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_cache: bool,
}

/// The kind of cores that comes first, on machines with several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CoreOrder {
    /// The fastest cores.
    #[default]
    Fast,
    /// The most efficient cores, which leaves the fast ones to other programs.
    Efficient,
}

impl CoreOrder {
    /// All orders, default first.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Efficient];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Efficient => "efficient",
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for CoreOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let order = Self::ALL.into_iter().find(|order| order.name() == text);
        order.ok_or_else(|| "expected fast or efficient".to_owned())
    }
}

impl fmt::Display for CoreOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The property to optimize for a task (Moreaud and Goglin, 2007).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlacementHint {
    /// Bandwidth to the device, by the classes of the model.
    #[default]
    Bandwidth,
    /// Latency to the device, by distance.
    Latency,
    /// Computing: away from the device, whose nodes stay free for tasks that need them.
    Cpu,
}

/// A device that tasks should be near to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlacementTarget {
    /// The handle in the request.
    pub handle: String,
    /// The chain from the handle to the device, step by step.
    pub chain: Vec<String>,
    /// The device.
    pub device: String,
    /// The node of the device; `None` if unknown.
    pub node: Option<NodeId>,
    /// The CPUs that serve its interrupts.
    pub irq_cpus: CpuSet,
    /// Share of the tasks, by bandwidth if that of all devices is known; all shares add up to 1.
    pub share: f64,
    /// The source of the ranking.
    pub basis: Basis,
    /// The nodes as seen from the device, best first.
    pub nodes: Vec<RankedNode>,
    /// The device's bandwidth with buffers on each node, by direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<DeviceExpectation>,
    /// Measured latency of each node; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<TargetLatency>,
}

/// The latency between a device and the nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TargetLatency {
    /// What was measured, such as `eth0, MMIO read` or `Latency, CPU-centric`.
    pub source: String,
    /// Time of measurement in seconds since 1970; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<u64>,
    /// The measured nodes.
    pub nodes: Vec<NodeLatency>,
}

/// The latency of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeLatency {
    /// The node.
    pub node: NodeId,
    /// Nanoseconds.
    pub ns: f64,
}

impl TargetLatency {
    /// Returns the latency of the slowest node in excess of the fastest one; `None` for equal ones.
    ///
    /// `latency +71 ns on node 2 (Latency, CPU-centric)`
    pub fn clause(&self) -> Option<String> {
        let by_ns = |one: &&NodeLatency, other: &&NodeLatency| one.ns.total_cmp(&other.ns);
        let (fastest, slowest) = (self.nodes.iter().min_by(by_ns)?, self.nodes.iter().max_by(by_ns)?);
        let excess = (slowest.ns - fastest.ns).round();
        (excess > 0.0).then(|| format!("latency +{excess} ns on node {} ({})", slowest.node, self.source))
    }
}

/// The source of a ranking of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "basis", rename_all = "kebab-case")]
pub enum Basis {
    /// I/O measured with the device.
    Device {
        /// Time of the oldest measurement in seconds since 1970.
        measured_at: u64,
    },
    /// A measured model.
    Model {
        /// Time of measurement in seconds since 1970.
        measured_at: u64,
    },
    /// Scheduling factors (Eq. 3.2) of counted events.
    SchedulingFactor {
        /// Time of measurement in seconds since 1970.
        measured_at: u64,
    },
    /// Measured latency, which was requested.
    Latency {
        /// Time of measurement in seconds since 1970; `None` if unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        measured_at: Option<u64>,
    },
    /// Packages and hop distances only.
    Topology,
    /// None, because the node of the device is not known.
    Nothing,
}

/// The rank of a node, seen from a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RankedNode {
    /// The node.
    pub node: NodeId,
    /// The rank; 1 is best. For both directions, the worse rank.
    pub rank: u32,
    /// Bandwidth relative to the best node; for both directions, the lower one. `None` without a
    /// model.
    pub of_best: Option<f64>,
}

/// The placement of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TaskPlacement {
    /// Index into `targets` of the device that it serves; `None` for all devices.
    pub target: Option<usize>,
    /// The CPUs of the task.
    pub cpus: CpuSet,
    /// The nodes of these CPUs.
    pub cpu_nodes: NodeSet,
    /// The memory binding of the task.
    pub memory: MemoryBinding,
}

/// A rejected node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RejectedNode {
    /// The node.
    pub node: NodeId,
    /// The reason.
    pub reason: String,
}

impl Default for PlacementRequest {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            tasks: None,
            cores_per_task: 1,
            with: Vec::new(),
            direction: None,
            spread: false,
            hint: PlacementHint::default(),
            strict: false,
            weights: false,
            core_order: CoreOrder::default(),
            by_cache: false,
        }
    }
}

impl PlacementHint {
    /// All hints, default first.
    pub const ALL: [Self; 3] = [Self::Bandwidth, Self::Latency, Self::Cpu];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Latency => "latency",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for PlacementHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PlacementHint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = Self::ALL.into_iter().find(|hint| hint.name() == text);
        hint.ok_or_else(|| "expected bandwidth, latency or cpu".to_owned())
    }
}
