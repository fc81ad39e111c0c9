//! STREAM between CPU nodes and memory nodes.

use crate::{ClassRule, Provenance, Reading, Rounds};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::{Pages, Placement, StreamLoop, StreamOp};
use serde::{Deserialize, Serialize};

/// STREAM results for pairs of CPU node and memory node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamRecord {
    /// [`STREAM_SCHEMA`](crate::STREAM_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: StreamMethod,
    /// The measurements.
    pub cells: Vec<StreamCell>,
    /// Bandwidth classes of pairs of nodes, by operation (Braithwaite et al., 2012); empty if cores
    /// were measured separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<PairClasses>,
}

/// Classes of all pairs of CPU node and memory node for one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PairClasses {
    /// The operation.
    pub op: StreamOp,
    /// The rule of classification.
    pub rule: ClassRule,
    /// The classes, best first.
    pub classes: Vec<PairClass>,
}

/// A bandwidth class of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PairClass {
    /// The rank; 1 is best.
    pub rank: u32,
    /// The pairs of CPU node and memory node.
    pub pairs: Vec<(NodeId, NodeId)>,
    /// Lowest bandwidth of a pair.
    pub min_bytes_per_s: f64,
    /// Highest bandwidth of a pair.
    pub max_bytes_per_s: f64,
    /// Mean bandwidth of the pairs.
    pub mean_bytes_per_s: f64,
}

/// The method of a STREAM measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamMethod {
    /// The loop of each measured operation.
    pub loops: Vec<(StreamOp, StreamLoop)>,
    /// The trials by which the loops were selected; empty if the user selected one.
    pub trials: Vec<StreamTrial>,
    /// The threads of a cell.
    pub scope: StreamScope,
    /// Bytes of each thread's arrays, by CPU node.
    pub bytes_per_array: Vec<(NodeId, u64)>,
    /// Page size of the arrays.
    pub pages: Pages,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// The threads that run STREAM in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum StreamScope {
    /// The threads of one CPU node together.
    Node {
        /// Requested threads per node; `None` for one per core.
        threads: Option<u32>,
    },
    /// All hardware threads of one CPU node together.
    HardwareThreads,
    /// Each core separately.
    Core,
}

/// The trial of a loop with an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamTrial {
    /// The operation.
    pub op: StreamOp,
    /// The loop.
    pub stream_loop: StreamLoop,
    /// Median bandwidth as STREAM counts it; `None` if this machine cannot run the loop.
    pub bytes_per_s: Option<f64>,
}

/// An operation by threads of one node on arrays of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamCell {
    /// The operation.
    pub op: StreamOp,
    /// The node of the threads.
    pub cpu_node: NodeId,
    /// The node of the arrays.
    pub memory_node: NodeId,
    /// The threads; one CPU with [`StreamScope::Core`].
    #[serde(flatten)]
    pub placement: Placement,
    /// Bandwidth as STREAM counts it: bytes read and written, without write-allocate traffic.
    pub bytes_per_s: Reading,
}
