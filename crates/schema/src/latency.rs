//! Latency between CPU nodes and memory nodes, idle and under load.

use crate::{DocumentError, Provenance, Reading, Rounds, Summary};
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::workload::{Pages, Placement};
use serde::{Deserialize, Serialize};

/// Version of [`LatencyRecord`].
pub const LATENCY_SCHEMA: &str = "numaio/latency/1";

/// Latency of loads, by pointer chase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// [`LATENCY_SCHEMA`].
    pub schema: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// How it was measured.
    pub method: LatencyMethod,
    /// Idle latency.
    pub cells: Vec<LatencyCell>,
    /// Latency against bandwidth under load; empty if that was not asked for.
    pub curves: Vec<LoadedCurve>,
}

/// How latency was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyMethod {
    /// Bytes of the chain's buffer, by CPU node.
    pub bytes: Vec<(NodeId, u64)>,
    /// Bytes from place to place of the chain.
    pub stride_bytes: u32,
    /// Pages behind the buffer.
    pub pages: Pages,
    /// When it ended.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Idle latency from a CPU of one node to memory of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyCell {
    /// Node of the thread.
    pub cpu_node: NodeId,
    /// The CPU.
    pub cpu: CpuId,
    /// Node of the buffer.
    pub memory_node: NodeId,
    /// Nanoseconds a load.
    pub ns_per_load: Reading,
}

/// Latency of one path while other cores of the same node load that path more and more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedCurve {
    /// Node of the threads.
    pub cpu_node: NodeId,
    /// CPU of the chain.
    pub cpu: CpuId,
    /// The loading threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// Node of all buffers.
    pub memory_node: NodeId,
    /// From the least load to full load.
    pub points: Vec<LoadPoint>,
}

/// One load and the latency under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Time that each thread waited after 4 KiB, in nanoseconds.
    pub gap_ns: u32,
    /// What the loading threads read, in bytes per second. None if nothing was measured.
    pub load_bytes_read_per_s: Option<Summary>,
    /// Nanoseconds a load of the chain.
    pub ns_per_load: Reading,
}

impl LatencyRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, LATENCY_SCHEMA)
    }
}
