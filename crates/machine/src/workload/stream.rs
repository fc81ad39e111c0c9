//! STREAM (McCalpin, 1995): long arrays, read and written in order.

use super::{Pages, Placement, Sampling};
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Threads that run one of STREAM's operations, all arrays on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamWorkload {
    /// The operation.
    pub op: StreamOp,
    /// The loop that does it.
    pub stream_loop: StreamLoop,
    /// Node of the arrays.
    pub memory: NodeId,
    /// The threads, each with arrays of its own.
    #[serde(flatten)]
    pub placement: Placement,
    /// Bytes of each array of a thread; a thread has [`StreamOp::arrays`] of them.
    pub bytes_per_array: u64,
    /// Pages behind the arrays.
    pub pages: Pages,
    /// When samples are taken, and when to end.
    pub sampling: Sampling,
}

/// An operation on arrays of doubles `a`, `b`, `c` and a number `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamOp {
    /// `c[i] = a[i]`
    Copy,
    /// `b[i] = s * c[i]`
    Scale,
    /// `c[i] = a[i] + b[i]`
    Add,
    /// `a[i] = b[i] + s * c[i]`
    Triad,
}

impl StreamOp {
    /// All operations, in STREAM's order.
    pub const ALL: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
        }
    }

    /// Arrays that one turn reads or writes; STREAM counts the bytes of each of them once, so its bandwidth is
    /// the bytes of this many arrays over the time of one pass.
    pub fn arrays(self) -> u32 {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }
}

impl fmt::Display for StreamOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a loop of STREAM loads and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamLoop {
    /// The widest vectors of the CPU and ordinary stores, as a compiler makes it: each line is read before it
    /// is written (write-allocate), which STREAM does not count.
    Ordinary,
    /// 64-byte vectors and non-temporal stores (AVX-512).
    Avx512,
    /// 32-byte vectors and non-temporal stores (AVX2).
    Avx2,
    /// `stnp` of pairs (aarch64).
    Stnp,
}

impl StreamLoop {
    /// All loops, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Ordinary, Self::Avx512, Self::Avx2, Self::Stnp];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Stnp => "stnp",
        }
    }

    /// Bytes that cross the memory bus in one pass over arrays of one byte each: those that STREAM counts, and
    /// with ordinary stores the written line once more.
    pub fn bus_bytes(self, op: StreamOp) -> u32 {
        op.arrays() + u32::from(self == Self::Ordinary)
    }
}

impl fmt::Display for StreamLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
