//! Latency: one thread follows pointers, each load's address the result of the one before.

use super::{Pages, Placement};
use crate::ids::{CpuId, NodeId};
use serde::{Deserialize, Serialize};

/// One thread that follows a chain of pointers through a buffer, alone or while others load a path.
///
/// The chain visits every place of the buffer once, in an order that is a single random cycle, so that neither
/// a prefetcher nor a second load in flight can hide a load's time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LatencyWorkload {
    /// CPU of the thread.
    pub cpu: CpuId,
    /// Node of the buffer.
    pub memory: NodeId,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Distance between the places of the chain, in bytes: a cache line at the least. Two lines or more keep a
    /// prefetcher of neighbouring lines from helping.
    pub stride_bytes: u32,
    /// Pages behind the buffer: on base pages most loads miss in the TLB too, and the walk is part of the
    /// figure.
    pub pages: Pages,
    /// Length of the run after one pass of warm-up, in milliseconds.
    pub milliseconds: u32,
    /// Equal slices the run is cut into; each is a sample.
    pub slices: u32,
    /// Threads that load the memory meanwhile; none for idle latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadWorkload>,
}

/// Threads that read memory in order, over and over, with gaps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoadWorkload {
    /// The threads, each with a buffer of its own; the CPU of the chain is not among them.
    #[serde(flatten)]
    pub placement: Placement,
    /// Node of the buffers.
    pub memory: NodeId,
    /// Bytes of each thread's buffer.
    pub bytes_per_thread: u64,
    /// Time that a thread waits after each [`LoadWorkload::PIECE_BYTES`] it has read, in nanoseconds; 0 for
    /// full load.
    pub gap_ns: u32,
}

impl LoadWorkload {
    /// Bytes that a thread reads between two gaps.
    pub const PIECE_BYTES: u64 = 4096;
}
