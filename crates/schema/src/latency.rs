//! Latency between CPU nodes and memory nodes, idle and under load.

use crate::{Provenance, Reading, Rounds, Summary};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::workload::{Pages, Placement};
use serde::{Deserialize, Serialize};

/// Memory latency measured by pointer chasing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencyRecord {
    /// [`LATENCY_SCHEMA`](crate::LATENCY_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: LatencyMethod,
    /// Idle latency by pair of nodes.
    pub cells: Vec<LatencyCell>,
    /// Latency against bandwidth under load; empty if not requested.
    pub curves: Vec<LoadedCurve>,
}

/// The method of a latency measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencyMethod {
    /// Bytes of the pointer chain's buffer, by CPU node.
    pub bytes: Vec<(NodeId, u64)>,
    /// Distance between elements of the chain in bytes.
    pub stride_bytes: u32,
    /// Page size of the buffer.
    pub pages: Pages,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Idle latency from a CPU of one node to memory of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencyCell {
    /// The node of the thread.
    pub cpu_node: NodeId,
    /// The CPU of the thread.
    pub cpu: CpuId,
    /// The node of the buffer.
    pub memory_node: NodeId,
    /// Nanoseconds per load.
    pub ns_per_load: Reading,
}

/// Latency of one path while other cores of the same node load that path increasingly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadedCurve {
    /// The node of the threads.
    pub cpu_node: NodeId,
    /// The CPU that follows the chain.
    pub cpu: CpuId,
    /// The loading threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// The node of all buffers.
    pub memory_node: NodeId,
    /// Points from the lowest to the full load.
    pub points: Vec<LoadPoint>,
}

/// A load and the latency under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadPoint {
    /// Pause of each loading thread after every 4 KiB, in nanoseconds.
    pub gap_ns: u32,
    /// Bytes per second that the loading threads read; `None` if nothing was measured.
    pub load_bytes_read_per_s: Option<Summary>,
    /// Nanoseconds per load of the chain.
    pub ns_per_load: Reading,
}
