//! Weights for interleaving pages over nodes.

use numaio_machine::ids::NodeId;
use numaio_machine::workload::StreamOp;
use serde::{Deserialize, Serialize};

/// Weights for the kernel's weighted interleave policy, computed from measured bandwidths
/// (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct InterleaveWeights {
    /// [`INTERLEAVE_SCHEMA`](crate::INTERLEAVE_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The STREAM operation whose bandwidth is used.
    pub op: StreamOp,
    /// The CPU node whose bandwidth counts; `None` uses the fastest CPUs for each memory node.
    pub from: Option<NodeId>,
    /// One entry for each node with memory.
    pub nodes: Vec<NodeWeight>,
}

/// The weight of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeWeight {
    /// The node.
    pub node: NodeId,
    /// Measured bandwidth as STREAM counts it.
    pub bytes_per_s: f64,
    /// The weight, from 1 to 255: consecutive pages before the next node's turn.
    pub weight: u32,
    /// Relative error: the node's share of pages by weight over its share of bandwidth, minus 1.
    pub error: f64,
}
