//! What is asked of a plan, and the plan: threads and bytes of each way between storage, memory and network.
//!
//! The problem is that of Tan Li's dissertation, chapter 5: data on the storage of node u is read into the memory
//! of node v and leaves by the NICs of node w. Its names: D(u) bytes of data, γd(u,v) disk threads and βd(u,v) bytes
//! on the way from u to v, γn(v,w) network threads and βn(v,w) bytes on the way from v to w, C threads on a node.
//! Both kinds of thread run on the memory node v. A way is named by its device node and its memory node,
//! whatever the direction: received data takes the same ways backwards.

use crate::DocumentError;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};

/// Schema and version of [`PlanProblem`].
pub const PLAN_PROBLEM_SCHEMA: &str = "numaio/plan-problem/1";

/// Schema and version of [`Plan`].
pub const PLAN_SCHEMA: &str = "numaio/plan/1";

/// What a plan is asked for. People write it too, as TOML or JSON, so a field that is not known is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanProblem {
    /// [`PLAN_PROBLEM_SCHEMA`]. In JSON it must stand there; who writes TOML may leave it out.
    #[serde(default = "problem_schema")]
    pub schema: String,
    /// Which way the data goes.
    #[serde(default)]
    pub direction: Transfer,
    /// What is to be least.
    #[serde(default)]
    pub objective: Objective,
    /// C: threads of both kinds that a node may run, where the node itself does not say otherwise.
    pub threads_per_node: u32,
    /// Nodes on which no thread may run and through whose memory no data goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_threads_on: Vec<NodeId>,
    /// What was assumed for want of a figure, in words for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// The machine, if the problem was made from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Identity>,
    /// The nodes, each once.
    pub nodes: Vec<PlanNode>,
    /// Storage with data to send, or with room for data to receive; several may be on one node.
    pub storage: Vec<PlanStorage>,
    /// NICs by which the data may go; several may be on one node.
    pub nics: Vec<PlanNic>,
    /// Ways between storage and memory. A pair of nodes that is not there cannot be used.
    #[serde(rename = "storage_ways")]
    pub storage_paths: Vec<PathRates>,
    /// Ways between memory and network. A pair of nodes that is not there cannot be used.
    #[serde(rename = "network_ways")]
    pub network_paths: Vec<PathRates>,
    /// Links and devices that several ways share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<PlanLimit>,
}

/// Which way data goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// From storage through memory to the network.
    #[default]
    Send,
    /// From the network through memory to storage.
    Receive,
}

/// What a plan makes least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Time of the slowest stage of the whole transfer, in seconds: of any way, device or limit.
    #[default]
    Time,
    /// Sum over the used (u,v,w) of the greater of the times of its two ways, in seconds, as the dissertation
    /// prints it. It knows no limit that ways share: neither [`PlanLimit`] nor capacities of devices.
    Sum,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanNode {
    /// Its id.
    pub node: NodeId,
    /// Threads it may run, reserved cores included; none for [`PlanProblem::threads_per_node`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Cores kept free of threads, as for interrupts.
    #[serde(default)]
    pub reserved: u32,
}

/// Storage and the data on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStorage {
    /// Its name, as in `nvme0n1`.
    pub device: String,
    /// The node it hangs on.
    pub node: NodeId,
    /// Bytes to send from it or to receive onto it; less than 2^53.
    pub bytes: u64,
    /// Bytes per second that the device moves at the most; none if only its ways bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// A NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanNic {
    /// Its name, as in `eth0`.
    pub device: String,
    /// The node it hangs on.
    pub node: NodeId,
    /// Bytes per second that it moves at the most; none if only its ways bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// Bandwidth between the devices of a node and the memory of a node, in the problem's direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRates {
    /// u of storage, w of the network: node of the devices.
    pub device_node: NodeId,
    /// v: node of the memory and of the threads.
    pub memory_node: NodeId,
    /// B0: bytes per second that one thread moves.
    pub thread_bytes_per_s: f64,
    /// Bmax: bytes per second of many threads together. Threads beyond Bmax / B0 (rounded up) gain nothing.
    pub most_bytes_per_s: f64,
    /// Where the two figures come from.
    #[serde(default)]
    pub origin: RateOrigin,
}

/// Where the bandwidths of a way come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateOrigin {
    /// The user gave them.
    #[default]
    Given,
    /// I/O of the device itself was measured.
    Measured,
    /// The copy model of the machine stands in for the device.
    Modelled,
    /// An assumption, told in [`PlanProblem::assumptions`].
    Assumed,
}

/// A link, a bus or a device that several ways share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanLimit {
    /// Its name for people, as in `link 0-1`.
    pub name: String,
    /// Bytes per second of all its ways together.
    pub bytes_per_s: f64,
    /// Ways between storage and memory that use it.
    #[serde(rename = "storage_ways", default)]
    pub storage_paths: Vec<PathId>,
    /// Ways between memory and network that use it.
    #[serde(rename = "network_ways", default)]
    pub network_paths: Vec<PathId>,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathId {
    /// Node of the devices.
    pub device_node: NodeId,
    /// Node of the memory and of the threads.
    pub memory_node: NodeId,
}

/// Threads and bytes of each way, and what they are expected to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// Version of numaio that planned.
    pub numaio: String,
    /// What was asked. [`PlanProblem::machine`] is the machine that the plan is good for.
    pub problem: PlanProblem,
    /// How it was solved.
    pub method: PlanMethod,
    /// Ways between storage and memory that are used, by device node, then memory node.
    #[serde(rename = "storage_ways")]
    pub storage_paths: Vec<PlannedPath>,
    /// Ways between memory and network that are used, by memory node, then device node.
    #[serde(rename = "network_ways")]
    pub network_paths: Vec<PlannedPath>,
    /// What it is expected to take.
    pub predicted: Prediction,
    /// How good it is.
    pub proof: Proof,
    /// Simple plans that were not taken, and why.
    pub rejected: Vec<RejectedPlan>,
}

/// How a plan was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanMethod {
    /// Enumeration of thread counts, pruned by bounds, a linear programme each (Li's dissertation, chapter 5).
    #[default]
    Divide,
    /// One mixed-integer programme in which each thread count is a choice.
    Mixed,
}

/// A way that is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPath {
    /// Node of the devices.
    pub device_node: NodeId,
    /// Node of the memory and of the threads.
    pub memory_node: NodeId,
    /// γ: threads, at least one.
    pub threads: u32,
    /// β: bytes, at least one.
    pub bytes: u64,
    /// Bytes per second of its threads together: min(γ B0, Bmax).
    pub bytes_per_s: f64,
}

/// What a plan is expected to take. Both objectives are told, whichever was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Time of the slowest stage, in seconds ([`Objective::Time`]).
    pub time_s: f64,
    /// The printed sum, in seconds ([`Objective::Sum`]).
    pub sum_s: f64,
    /// Bytes of all data over the time.
    pub bytes_per_s: f64,
    /// Seconds that the simulator took, which knows nothing of planning; none if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_s: Option<f64>,
    /// Every stage that is used, the slowest first; those at the head that take the whole time are the
    /// bottleneck.
    pub stages: Vec<StageTime>,
}

/// How long one stage is busy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Seconds it needs for the bytes that go through it.
    pub busy_s: f64,
}

/// Something that all bytes of some ways go through.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Threads between storage and memory.
    #[serde(rename = "storage-way")]
    StoragePath(PathId),
    /// Threads between memory and network.
    #[serde(rename = "network-way")]
    NetworkPath(PathId),
    /// A storage device, by name.
    Storage(String),
    /// All NICs of a node together: data is spread over them by their bandwidths.
    Nics(NodeId),
    /// A [`PlanLimit`], by name.
    Limit(String),
}

/// What is known of how far a plan may be from the best one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The objective's value of this plan, in seconds.
    pub value_s: f64,
    /// No plan is below this, in seconds.
    pub bound_s: f64,
    /// value / bound - 1.
    pub gap: f64,
    /// Whether the gap is closed, within the methods' tolerance of 1e-6. False after a time limit.
    pub optimal: bool,
    /// Linear programmes solved.
    #[serde(rename = "programmes")]
    pub linear_programs: u64,
}

/// A simple plan that was not taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RejectedPlan {
    /// Which.
    pub rule: SimpleRule,
    /// Its ways between storage and memory; empty if it cannot be carried out.
    #[serde(rename = "storage_ways", default)]
    pub storage_paths: Vec<PlannedPath>,
    /// Its ways between memory and network; empty if it cannot be carried out.
    #[serde(rename = "network_ways", default)]
    pub network_paths: Vec<PlannedPath>,
    /// What it would take; none if it cannot be carried out.
    pub predicted: Option<Prediction>,
    /// Why it was not taken, in words for people.
    pub why: String,
}

/// A plan as it is made by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimpleRule {
    /// Data goes through the memory of the node its storage hangs on.
    AllLocal,
    /// Data and threads are spread evenly over all nodes that may run threads.
    EvenSpread,
}

fn problem_schema() -> String {
    PLAN_PROBLEM_SCHEMA.to_owned()
}

impl PlanProblem {
    /// Reads a problem from JSON.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, PLAN_PROBLEM_SCHEMA)
    }

    /// Bytes of all data. Saturates.
    pub fn total_bytes(&self) -> u64 {
        self.storage.iter().fold(0, |sum, storage| sum.saturating_add(storage.bytes))
    }
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, PLAN_SCHEMA)
    }

    /// Stages that take the whole predicted time, within a millionth.
    pub fn bottleneck(&self) -> impl Iterator<Item = &StageTime> {
        let least = self.predicted.time_s * (1.0 - 1e-6);
        self.predicted.stages.iter().filter(move |stage| stage.busy_s >= least)
    }

    /// Threads of both kinds that run on a node.
    pub fn threads_on(&self, node: NodeId) -> u32 {
        let paths = self.storage_paths.iter().chain(&self.network_paths);
        paths.filter(|path| path.memory_node == node).map(|path| path.threads).sum()
    }
}

impl PathRates {
    /// Which way it is.
    pub fn id(&self) -> PathId {
        PathId { device_node: self.device_node, memory_node: self.memory_node }
    }
}

impl PlannedPath {
    /// Which way it is.
    pub fn id(&self) -> PathId {
        PathId { device_node: self.device_node, memory_node: self.memory_node }
    }
}
