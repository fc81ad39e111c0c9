//! Workloads, which numaio measures, predicts, plans and places.

mod io;
mod latency;
mod memory;
mod stream;

pub use io::{
    DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, StreamGroup, TcpPath, ToolPeer, ToolProcess,
    ToolWorkload,
};
pub use latency::{LatencyWorkload, LoadWorkload};
pub use memory::{MemoryBinding, MemoryPolicy};
pub use stream::{StreamLoop, StreamOp, StreamWorkload};

use crate::ids::NodeId;
use crate::set::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A data flow from the memory of one node to the memory of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Node whose memory is read.
    pub source: NodeId,
    /// Node whose memory is written.
    pub sink: NodeId,
}

impl Flow {
    /// Returns the flow that represents I/O of a device on `target` with a buffer on `node`.
    ///
    /// After Li et al. (ICPP 2013, Algorithm 1): the target is the sink of a device write and the
    /// source of a device read.
    pub fn of(direction: Direction, target: NodeId, node: NodeId) -> Self {
        match direction {
            Direction::Write => Self { source: node, sink: target },
            Direction::Read => Self { source: target, sink: node },
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.source, self.sink)
    }
}

/// The direction of I/O, from the view of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device write: memory to device.
    Write,
    /// Device read: device to memory.
    Read,
}

impl Direction {
    /// Returns `device write` or `device read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "device write",
            Self::Read => "device read",
        }
    }
}

/// CPUs with one thread each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The CPUs; each runs one pinned thread.
    pub cpus: CpuSet,
}

/// A workload that a machine can run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Workload {
    /// Concurrent threads that copy memory, each with its own source and sink.
    Copy(CopyWorkload),
    /// Threads that run a STREAM operation.
    Stream(StreamWorkload),
    /// A thread that follows pointers.
    Latency(LatencyWorkload),
    /// Streams that move data between memory and a device.
    Io(IoWorkload),
    /// An external program that measures.
    Tool(ToolWorkload),
}

impl fmt::Display for Workload {
    /// Writes one line that identifies the workload in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(copy) => write!(
                f,
                "copy {} by CPUs {} with {}, {} bytes a thread",
                copy.flow, copy.placement.cpus, copy.copy_loop, copy.bytes_per_thread
            ),
            Self::Stream(stream) => write!(
                f,
                "STREAM {} ({}) by CPUs {} on node {}, {} bytes an array",
                stream.op, stream.stream_loop, stream.placement.cpus, stream.memory, stream.bytes_per_array
            ),
            Self::Latency(latency) => {
                write!(f, "latency from CPU {} to node {}", latency.cpu, latency.memory)?;
                match &latency.load {
                    Some(load) => write!(
                        f,
                        " while CPUs {} read node {}, {} ns between reads",
                        load.placement.cpus, load.memory, load.gap_ns
                    ),
                    None => Ok(()),
                }
            }
            Self::Io(io) => io.fmt(f),
            Self::Tool(tool) => tool.fmt(f),
        }
    }
}

/// Threads that copy memory between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopyWorkload {
    /// Source and sink.
    #[serde(flatten)]
    pub flow: Flow,
    /// The threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// The copy loop.
    pub copy_loop: CopyLoop,
    /// Size of each thread's source and of its sink in bytes.
    pub bytes_per_thread: u64,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Sampling and end of the run.
    pub sampling: Sampling,
}

/// A loop that copies memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyLoop {
    /// `memcpy` of the C library.
    Memcpy,
    /// 64-byte loads and non-temporal stores (AVX-512).
    Avx512,
    /// 32-byte loads and non-temporal stores (AVX2).
    Avx2,
    /// `stnp` of pairs (aarch64).
    Stnp,
    /// `rep movsb` (x86-64, enhanced).
    RepMovsb,
}

impl CopyLoop {
    /// All loops, in the order of preference.
    pub const ALL: [Self; 5] = [Self::Memcpy, Self::Avx512, Self::Avx2, Self::Stnp, Self::RepMovsb];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Stnp => "stnp",
            Self::RepMovsb => "rep-movsb",
        }
    }

    /// Returns the bytes on the memory bus for each copied byte: read, written, and for ordinary
    /// stores also read before the write (write-allocate).
    ///
    /// An upper bound for `memcpy` and `rep movsb`, which may use non-temporal stores for long
    /// copies.
    pub fn bus_bytes_per_byte(self) -> u32 {
        match self {
            Self::Avx512 | Self::Avx2 | Self::Stnp => 2,
            Self::Memcpy | Self::RepMovsb => 3,
        }
    }
}

impl fmt::Display for CopyLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Page sizes of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Only base pages.
    Base,
    /// Transparent huge pages requested by madvise, or base pages if unavailable.
    Transparent,
    /// Reserved huge pages of the default size (hugetlb).
    Huge,
}

/// Sampling and end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "sampling", rename_all = "lowercase")]
pub enum Sampling {
    /// All threads copy their buffers repeatedly; the time in which all of them run is divided into
    /// equal slices, and each slice is a sample of the bytes of all threads.
    Window {
        /// Duration of the run after the warm-up, in milliseconds.
        milliseconds: u32,
        /// Number of slices.
        slices: u32,
    },
    /// Algorithm 1 as published: all threads start together and copy their buffers once,
    /// repeatedly; a sample is one repetition, from the first thread's start to the last thread's
    /// end.
    Repetitions {
        /// Number of repetitions.
        count: u32,
    },
}
