//! A planning problem and its plan: threads and bytes of each path between storage, memory and
//! network.
//!
//! The problem is that of Tan Li's dissertation, chapter 5: data on the storage of node u is read
//! into the memory of node v and sent by the NICs of node w. Its symbols: D(u) bytes of data,
//! γd(u,v) disk threads and βd(u,v) bytes on the path from u to v, γn(v,w) network threads and
//! βn(v,w) bytes on the path from v to w, C threads on a node. Threads of both kinds run on the
//! memory node v. A path is named by its device node and its memory node in both directions;
//! received data takes the same paths in reverse.

use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};

/// A planning problem.
///
/// Users also write it, as TOML or JSON, so unknown fields are rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanProblem {
    /// [`PLAN_PROBLEM_SCHEMA`](crate::PLAN_PROBLEM_SCHEMA). Required in JSON, optional in TOML.
    #[serde(default = "problem_schema")]
    pub schema: String,
    /// The direction of the transfer.
    #[serde(default)]
    pub direction: Transfer,
    /// The objective.
    #[serde(default)]
    pub objective: Objective,
    /// C: default maximum number of threads of both kinds per node.
    pub threads_per_node: u32,
    /// Nodes that run no threads and whose memory is not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_threads_on: Vec<NodeId>,
    /// Assumptions in place of unknown rates, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// The machine that the problem was derived from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Identity>,
    /// The nodes, each once.
    pub nodes: Vec<PlanNode>,
    /// Storage that holds the data to send or receives data; a node may have several devices.
    pub storage: Vec<PlanStorage>,
    /// NICs for the data; a node may have several.
    pub nics: Vec<PlanNic>,
    /// Paths between storage and memory. Pairs of nodes not listed cannot be used.
    pub storage_paths: Vec<PathRates>,
    /// Paths between memory and network. Pairs of nodes not listed cannot be used.
    pub network_paths: Vec<PathRates>,
    /// Links and devices shared by several paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<PlanLimit>,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// From storage through memory to the network.
    #[default]
    Send,
    /// From the network through memory to storage.
    Receive,
}

/// The objective that a plan minimizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Time of the slowest stage of the transfer in seconds: of any path, device or limit.
    #[default]
    Time,
    /// Sum over the used (u,v,w) of the longer time of the two paths, in seconds, as printed in the
    /// dissertation. It ignores what paths share: [`PlanLimit`] and capacities of devices.
    Sum,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanNode {
    /// The node ID.
    pub node: NodeId,
    /// Maximum threads, including reserved cores; `None` for [`PlanProblem::threads_per_node`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Cores kept free of threads, for example for interrupts.
    #[serde(default)]
    pub reserved: u32,
}

/// A storage device and its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanStorage {
    /// The name, such as `nvme0n1`.
    pub device: String,
    /// The node it is attached to.
    pub node: NodeId,
    /// Bytes to send from it or to receive on it; less than 2^53.
    pub bytes: u64,
    /// Maximum bytes per second of the device; `None` if only its paths limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// A NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanNic {
    /// The name, such as `eth0`.
    pub device: String,
    /// The node it is attached to.
    pub node: NodeId,
    /// Maximum bytes per second; `None` if only its paths limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// Bandwidth between the devices of a node and the memory of a node, in the direction of the
/// problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PathRates {
    /// The device node: u of storage, w of the network.
    pub device_node: NodeId,
    /// v: the node of memory and threads.
    pub memory_node: NodeId,
    /// B0: bytes per second of one thread.
    pub thread_bytes_per_s: f64,
    /// Bmax: maximum bytes per second of many threads. More than Bmax / B0 threads (rounded up)
    /// gain nothing.
    pub max_bytes_per_s: f64,
    /// The source of both rates.
    #[serde(default)]
    pub origin: RateOrigin,
}

/// The source of a path's rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RateOrigin {
    /// The user specified them.
    #[default]
    Given,
    /// I/O of the device was measured.
    Measured,
    /// The copy model of the machine substitutes for the device.
    Modeled,
    /// An assumption, listed in [`PlanProblem::assumptions`].
    Assumed,
}

/// A link, bus or device shared by several paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanLimit {
    /// The name for users, such as `link 0-1`.
    pub name: String,
    /// Bytes per second of all its paths together.
    pub bytes_per_s: f64,
    /// Paths between storage and memory that use it.
    #[serde(default)]
    pub storage_paths: Vec<PathId>,
    /// Paths between memory and network that use it.
    #[serde(default)]
    pub network_paths: Vec<PathId>,
}

/// The identity of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PathId {
    /// The node of the devices.
    pub device_node: NodeId,
    /// The node of memory and threads.
    pub memory_node: NodeId,
}

/// A plan: threads and bytes of each path, and the predicted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// [`PLAN_SCHEMA`](crate::PLAN_SCHEMA).
    pub schema: String,
    /// Version of numaio that planned.
    pub numaio: String,
    /// The problem. The plan applies to [`PlanProblem::machine`] only.
    pub problem: PlanProblem,
    /// Used paths between storage and memory, by device node, then memory node.
    pub storage_paths: Vec<PlannedPath>,
    /// Used paths between memory and network, by memory node, then device node.
    pub network_paths: Vec<PlannedPath>,
    /// The predicted time.
    pub predicted: Prediction,
    /// Bounds on the distance to the optimum.
    pub proof: Proof,
    /// Simple plans that were rejected, with reasons.
    pub rejected: Vec<RejectedPlan>,
}

/// A used path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PlannedPath {
    /// The node of the devices.
    pub device_node: NodeId,
    /// The node of memory and threads.
    pub memory_node: NodeId,
    /// γ: threads, at least one.
    pub threads: u32,
    /// β: bytes, at least one.
    pub bytes: u64,
    /// Bytes per second of all its threads: min(γ B0, Bmax).
    pub bytes_per_s: f64,
}

/// The predicted times of a plan, for both objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Time of the slowest stage in seconds ([`Objective::Time`]).
    pub time_s: f64,
    /// The sum of the dissertation in seconds ([`Objective::Sum`]).
    pub sum_s: f64,
    /// Bytes of all data per second.
    pub bytes_per_s: f64,
    /// Time in the independent simulator, in seconds; `None` if it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_s: Option<f64>,
    /// All used stages, slowest first. The first stages, as far as their time equals the total, are
    /// the bottleneck.
    pub stages: Vec<StageTime>,
}

/// The busy time of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Seconds to process all of its bytes.
    pub busy_s: f64,
}

/// A resource used by all bytes of some paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Threads between storage and memory.
    StoragePath(PathId),
    /// Threads between memory and network.
    NetworkPath(PathId),
    /// A storage device, by name.
    Storage(String),
    /// All NICs of a node together; data is distributed by their bandwidths.
    Nics(NodeId),
    /// A [`PlanLimit`], by name.
    Limit(String),
}

/// A bound on the distance of a plan from the optimum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// Value of the objective in seconds.
    pub value_s: f64,
    /// Lower bound of the objective for all plans, in seconds.
    pub bound_s: f64,
    /// value / bound - 1.
    pub gap: f64,
    /// Whether the gap is closed within the tolerance of 1e-6. False after a time limit.
    pub optimal: bool,
    /// Number of linear programs solved.
    pub linear_programs: u64,
}

/// A rejected simple plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RejectedPlan {
    /// The rule.
    pub rule: SimpleRule,
    /// The paths between storage and memory; empty if the plan is not feasible.
    #[serde(default)]
    pub storage_paths: Vec<PlannedPath>,
    /// The paths between memory and network; empty if the plan is not feasible.
    #[serde(default)]
    pub network_paths: Vec<PlannedPath>,
    /// The predicted time; `None` if the plan is not feasible.
    pub predicted: Option<Prediction>,
    /// Why it was rejected, for users.
    pub reason: String,
}

/// A rule for a simple plan, as made by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SimpleRule {
    /// Data goes through the memory of the storage's node.
    AllLocal,
    /// Data and threads are spread evenly over all nodes that may run threads.
    EvenSpread,
}

fn problem_schema() -> String {
    PlanProblem::SCHEMA.to_owned()
}

impl PlanProblem {
    /// Returns the bytes of all data. Saturates.
    pub fn total_bytes(&self) -> u64 {
        self.storage.iter().fold(0, |sum, storage| sum.saturating_add(storage.bytes))
    }
}

impl Plan {
    /// Returns the stages that take the total predicted time, within a millionth.
    pub fn bottleneck(&self) -> impl Iterator<Item = &StageTime> {
        let threshold = self.predicted.time_s * (1.0 - 1e-6);
        self.predicted.stages.iter().filter(move |stage| stage.busy_s >= threshold)
    }

    /// Returns the number of threads of both kinds on a node.
    pub fn threads_on(&self, node: NodeId) -> u32 {
        let paths = self.storage_paths.iter().chain(&self.network_paths);
        paths.filter(|path| path.memory_node == node).map(|path| path.threads).sum()
    }
}

impl PathRates {
    /// Returns the identity of the path.
    pub fn id(&self) -> PathId {
        PathId { device_node: self.device_node, memory_node: self.memory_node }
    }
}

impl PlannedPath {
    /// Returns the identity of the path.
    pub fn id(&self) -> PathId {
        PathId { device_node: self.device_node, memory_node: self.memory_node }
    }
}
