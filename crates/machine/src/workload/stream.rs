//! STREAM workload (McCalpin, 1995): sequential reads and writes of long arrays.

use super::common::{Pages, Placement, Sampling};
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Threads that run a STREAM operation with all arrays on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamWorkload {
    /// The operation.
    pub op: StreamOp,
    /// The loop.
    pub stream_loop: StreamLoop,
    /// Node of the arrays.
    pub memory: NodeId,
    /// The threads, each with its own arrays.
    #[serde(flatten)]
    pub placement: Placement,
    /// Size of each array of a thread in bytes; a thread has [`StreamOp::arrays`] arrays.
    pub bytes_per_array: u64,
    /// Page size of the arrays.
    pub pages: Pages,
    /// Sampling and end of the run.
    pub sampling: Sampling,
}

/// An operation on arrays of doubles `a`, `b`, `c` and a scalar `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
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
    /// Loads of `a[i]`, whose values are discarded. Not an operation of STREAM.
    Read,
    /// `a[i] = s`. Not an operation of STREAM.
    Write,
}

impl StreamOp {
    /// All operations: those of STREAM in its order, then reads and writes alone.
    pub const ALL: [Self; 6] = [Self::Copy, Self::Scale, Self::Add, Self::Triad, Self::Read, Self::Write];

    /// The operations of STREAM, in its order.
    pub const STREAM: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Returns the name for users.
    pub fn title(self) -> &'static str {
        match self {
            Self::Copy => "STREAM copy",
            Self::Scale => "STREAM scale",
            Self::Add => "STREAM add",
            Self::Triad => "STREAM triad",
            Self::Read => "Reads",
            Self::Write => "Writes",
        }
    }

    /// Returns the number of arrays that the operation reads or writes.
    ///
    /// STREAM counts the bytes of each array once: its bandwidth is their total size over the time
    /// of a pass.
    pub fn arrays(self) -> u32 {
        match self {
            Self::Read | Self::Write => 1,
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

/// Load and store instructions of a STREAM loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StreamLoop {
    /// The CPU's widest vectors and ordinary stores, as compiled code: each line is read before it
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
    /// All loops, in the order of preference.
    pub const ALL: [Self; 4] = [Self::Ordinary, Self::Avx512, Self::Avx2, Self::Stnp];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Stnp => "stnp",
        }
    }

    /// Returns the bytes on the memory bus per array element of one byte: the bytes that STREAM
    /// counts, and with ordinary stores the written line once more.
    pub fn bus_bytes(self, op: StreamOp) -> u32 {
        op.arrays() + u32::from(self == Self::Ordinary && op != StreamOp::Read)
    }
}

impl fmt::Display for StreamLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
