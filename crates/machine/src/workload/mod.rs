//! A workload: the one noun. It is measured, predicted, planned and placed.

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

/// From which node's memory to which node's memory bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Node whose memory is read.
    pub source: NodeId,
    /// Node whose memory is written.
    pub sink: NodeId,
}

impl Flow {
    /// The flow that stands for a device on `target` and a buffer on `node`, after Li et al. (ICPP 2013,
    /// Algorithm 1): a device write has its sink on the target, a device read its source.
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

/// The direction of I/O, named from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device write: memory to device.
    Write,
    /// Device read: device to memory.
    Read,
}

impl Direction {
    /// `device write` or `device read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "device write",
            Self::Read => "device read",
        }
    }
}

/// Where threads run: one thread on each CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The CPUs; each carries one pinned thread.
    pub cpus: CpuSet,
}

/// What a machine can be asked to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Workload {
    /// Threads copy memory, each with its own source and sink, all at once.
    Copy(CopyWorkload),
    /// Threads run an operation of STREAM.
    Stream(StreamWorkload),
    /// A thread follows pointers.
    Latency(LatencyWorkload),
    /// Streams move data between memory and a device.
    Io(IoWorkload),
    /// Another program measures.
    Tool(ToolWorkload),
}

impl fmt::Display for Workload {
    /// One line that tells it from others, for messages.
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

/// Threads that copy between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopyWorkload {
    /// From where to where.
    #[serde(flatten)]
    pub flow: Flow,
    /// The threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// The copy loop.
    pub copy_loop: CopyLoop,
    /// Bytes of each thread's source, and again of its sink.
    pub bytes_per_thread: u64,
    /// Pages behind the buffers.
    pub pages: Pages,
    /// When samples are taken, and when to end.
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
    /// All loops, in the order in which they are tried.
    pub const ALL: [Self; 5] = [Self::Memcpy, Self::Avx512, Self::Avx2, Self::Stnp, Self::RepMovsb];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Stnp => "stnp",
            Self::RepMovsb => "rep-movsb",
        }
    }

    /// Bytes that cross the memory bus for each byte copied: read, written, and, where the stores are
    /// ordinary ones, read once more before they are written (write-allocate). `memcpy` and `rep movsb`
    /// may choose non-temporal stores for long copies, so theirs is an upper bound.
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

/// Pages behind buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Pages of the base size only.
    Base,
    /// Transparent huge pages asked for by madvise; base pages where there are none.
    Transparent,
    /// Reserved huge pages of the default size (hugetlb).
    Huge,
}

/// When samples are taken, and when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "sampling", rename_all = "lowercase")]
pub enum Sampling {
    /// All threads copy their buffers over and over for this long; the time in which all of them run is
    /// cut into equal slices, and each slice is a sample of what all threads copied in it.
    Window {
        /// Length of the run, after the warm-up, in milliseconds.
        milliseconds: u32,
        /// Number of slices.
        slices: u32,
    },
    /// Algorithm 1 as printed: all threads start together and copy their buffer once, this many times;
    /// a sample is one repetition, from the first thread's start to the last thread's end.
    Repetitions {
        /// How many.
        count: u32,
    },
}
