//! Weights by which pages are interleaved over nodes.

use numaio_machine::ids::NodeId;
use numaio_machine::workload::StreamOp;
use serde::{Deserialize, Serialize};

/// Version of [`InterleaveWeights`].
pub const INTERLEAVE_SCHEMA: &str = "numaio/interleave/1";

/// Weights of the kernel's weighted interleave that measured bandwidths imply
/// (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterleaveWeights {
    /// [`INTERLEAVE_SCHEMA`].
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The operation of STREAM whose bandwidth was taken.
    pub op: StreamOp,
    /// CPU node from which bandwidth is seen; none if each memory is seen from the CPUs that reach it fastest.
    pub from: Option<NodeId>,
    /// One for each node with memory.
    pub nodes: Vec<NodeWeight>,
}

/// A node's weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeWeight {
    /// The node.
    pub node: NodeId,
    /// Measured bandwidth as STREAM counts.
    pub bytes_per_s: f64,
    /// The weight, from 1 to 255: pages in a row before the next node's turn.
    pub weight: u32,
    /// Share of all pages that the weight gives it, over the share that its bandwidth asks for, less one.
    pub error: f64,
}
