//! Workloads, which numaio measures, predicts, plans and places.

mod common;
mod copy;
mod counted;
mod io;
mod latency;
mod memory;
mod mmio;
mod neighbor;
mod ping;
mod program;
mod stream;

pub use common::{Direction, Flow, Pages, Placement, Sampling};
pub use copy::{CopyLoop, CopyWorkload};
pub use counted::{CountedTarget, CountedWorkload};
pub use io::{
    DiskMethod, DiskOrder, DiskPath, IoPath, IoWorkload, StreamGroup, TcpPath, ToolPeer, ToolProcess,
    ToolWorkload,
};
pub use latency::{LatencyWorkload, LoadWorkload};
pub use memory::{MemoryBinding, MemoryPolicy};
pub use mmio::MmioWorkload;
pub use neighbor::{NeighborLoad, StreamLoad};
pub use ping::{PingPart, PingWorkload, Rail};
pub use program::ProgramWorkload;
pub use stream::{StreamLoop, StreamOp, StreamWorkload};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload that a machine can run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
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
    /// Messages that a peer returns.
    Ping(PingWorkload),
    /// Reads of a register of a device.
    Mmio(MmioWorkload),
    /// An external program that measures.
    Tool(ToolWorkload),
    /// A program of the user.
    Program(ProgramWorkload),
    /// A workload whose events are counted.
    Counted(CountedWorkload),
    /// A workload with load beside it.
    Loaded(LoadedWorkload),
}

/// A workload that runs while other threads or programs load the machine.
///
/// Every load runs before the workload starts, and until it has ended. A load that ends earlier
/// fails the run. Loads do not nest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadedWorkload {
    /// The loads, at least one.
    pub loads: Vec<NeighborLoad>,
    /// The measured workload.
    pub workload: Box<Workload>,
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
                "{} ({}) by CPUs {} on node {}, {} bytes an array",
                stream.op.title(),
                stream.stream_loop,
                stream.placement.cpus,
                stream.memory,
                stream.bytes_per_array
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
            Self::Ping(ping) => ping.fmt(f),
            Self::Mmio(mmio) => mmio.fmt(f),
            Self::Tool(tool) => tool.fmt(f),
            Self::Program(program) => program.fmt(f),
            Self::Counted(counted) => counted.fmt(f),
            Self::Loaded(loaded) => loaded.fmt(f),
        }
    }
}

impl fmt::Display for LoadedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loads: Vec<String> = self.loads.iter().map(ToString::to_string).collect();
        write!(f, "{}; beside it {}", self.workload, loads.join(", "))
    }
}
