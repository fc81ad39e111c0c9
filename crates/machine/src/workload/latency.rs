//! Latency workload: a chain of dependent loads.

use super::common::{Pages, Placement};
use crate::ids::{CpuId, NodeId};
use serde::{Deserialize, Serialize};

/// A thread that follows a chain of pointers through a buffer, with or without concurrent load.
///
/// The chain is a single random cycle that visits every place of the buffer once. Therefore neither
/// a prefetcher nor overlapping loads can hide the latency.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LatencyWorkload {
    /// CPU of the thread.
    pub cpu: CpuId,
    /// Node of the buffer.
    pub memory: NodeId,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Distance between places of the chain in bytes, at least a cache line.
    ///
    /// Two or more lines prevent adjacent-line prefetching.
    pub stride_bytes: u32,
    /// Page size of the buffer; with base pages most loads also miss the TLB, and the result
    /// includes the page walk.
    pub pages: Pages,
    /// Duration of the run after one warm-up pass, in milliseconds.
    pub milliseconds: u32,
    /// Number of equal slices of the run; each is a sample.
    pub slices: u32,
    /// Threads that load the memory meanwhile; `None` for idle latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadWorkload>,
}

/// Threads that repeatedly read memory sequentially, with gaps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadWorkload {
    /// The threads, each with its own buffer; they exclude the CPU of the chain.
    #[serde(flatten)]
    pub placement: Placement,
    /// Node of the buffers.
    pub memory: NodeId,
    /// Bytes of each thread's buffer.
    pub bytes_per_thread: u64,
    /// Pause of a thread after each [`LoadWorkload::PIECE_BYTES`] in nanoseconds; 0 for full load.
    pub gap_ns: u32,
}

impl LoadWorkload {
    /// Bytes that a thread reads between two pauses.
    pub const PIECE_BYTES: u64 = 4096;
}
