//! Where the tasks of a program should run, and why.

use crate::{DocumentError, MachineSource};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::topology::Identity;
use numaio_machine::workload::{Direction, MemoryBinding};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Version of [`PlacementPlan`].
pub const PLACEMENT_SCHEMA: &str = "numaio/placement/1";

/// Places for the tasks of a program. It bears the identity of its machine, and is refused on another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementPlan {
    /// [`PLACEMENT_SCHEMA`].
    pub schema: String,
    /// Version of numaio that chose.
    pub numaio: String,
    /// Seconds since 1970 at which it was made.
    pub made_at: u64,
    /// The machine.
    pub machine: Identity,
    /// Whether it was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// What was asked for.
    pub request: PlacementRequest,
    /// What to be near, as it was resolved.
    pub targets: Vec<PlacementTarget>,
    /// A place for each task.
    pub tasks: Vec<TaskPlacement>,
    /// Why these nodes, in words.
    pub reasons: Vec<String>,
    /// Nodes that were not chosen, and why.
    pub rejected: Vec<RejectedNode>,
    /// What no choice could give, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compromises: Vec<String>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRequest {
    /// Handles to be near, as they were typed.
    pub near: Vec<String>,
    /// Tasks to place; none for one program with threads of its own.
    pub tasks: Option<u32>,
    /// Cores of each task; a program of its own gets all that are good.
    pub cores_per_task: u32,
    /// The direction that matters; none for both.
    pub direction: Option<Direction>,
    /// Whether tasks are spread over all nodes of the best class.
    pub spread: bool,
    /// What the tasks want most.
    pub hint: PlacementHint,
    /// Whether memory may lie nowhere else.
    pub strict: bool,
    /// Whether pages lie in turn on all nodes with memory, by the kernel's weights.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weights: bool,
}

/// What a task wants most (Moreaud and Goglin, 2007).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementHint {
    /// Bandwidth to the device: by the model's classes.
    #[default]
    Bandwidth,
    /// Short ways to the device: by distance.
    Latency,
    /// Computing: away from the device, whose nodes are left to tasks that need them.
    Cpu,
}

/// A device to be near.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementTarget {
    /// The handle by which it was asked for.
    pub handle: String,
    /// How the handle led to the device, step by step.
    pub chain: Vec<String>,
    /// The device.
    pub device: String,
    /// Its node; none if unknown.
    pub node: Option<NodeId>,
    /// CPUs to which its interrupts go.
    pub irq_cpus: CpuSet,
    /// Its share of the tasks, by bandwidth where that is known of all devices; all shares add up to 1.
    pub share: f64,
    /// From what its best nodes are known.
    pub basis: Basis,
    /// Nodes as seen from it, best first.
    pub nodes: Vec<RankedNode>,
}

/// From what the best nodes are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "basis", rename_all = "lowercase")]
pub enum Basis {
    /// A model that was measured.
    Model {
        /// Seconds since 1970.
        measured_at: u64,
    },
    /// Packages and hop distances alone.
    Topology,
    /// Nothing: its node is not known.
    Nothing,
}

/// A node as seen from a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedNode {
    /// The node.
    pub node: NodeId,
    /// 1 is best. Of both directions the worse one counts.
    pub rank: u32,
    /// Bandwidth relative to the best node's, of both directions the lesser; none without a model.
    pub of_best: Option<f64>,
}

/// Where one task runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlacement {
    /// Index of the device it serves, in `targets`; none if it serves all.
    pub target: Option<usize>,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Nodes of these CPUs.
    pub cpu_nodes: NodeSet,
    /// Its memory.
    pub memory: MemoryBinding,
}

/// A node that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedNode {
    /// The node.
    pub node: NodeId,
    /// Why not.
    pub why: String,
}

impl PlacementPlan {
    /// Reads a plan.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, PLACEMENT_SCHEMA)
    }
}

impl Default for PlacementRequest {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            tasks: None,
            cores_per_task: 1,
            direction: None,
            spread: false,
            hint: PlacementHint::default(),
            strict: false,
            weights: false,
        }
    }
}

impl PlacementHint {
    /// All hints, the default first.
    pub const ALL: [Self; 3] = [Self::Bandwidth, Self::Latency, Self::Cpu];

    /// The name in options and documents.
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
        let known = Self::ALL.into_iter().find(|hint| hint.name() == text);
        known.ok_or_else(|| format!("{text:?} is no hint; there are bandwidth, latency and cpu"))
    }
}
