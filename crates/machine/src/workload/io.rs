//! I/O between memory and a device, and programs that measure it.

use super::{Direction, Sampling};
use crate::ids::NodeId;
use crate::set::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Streams of I/O of one device, all at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IoWorkload {
    /// The device, and what moves its data.
    pub through: IoPath,
    /// Who streams from where; several groups make a mix.
    pub groups: Vec<StreamGroup>,
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// Requests of a stream in flight.
    pub depth: u32,
    /// When samples are taken, and when to end.
    pub sampling: Sampling,
    /// Bytes after which the run ends early, of all streams together; none for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bytes: Option<u64>,
}

/// Streams that run on the same CPUs with buffers on the same node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamGroup {
    /// CPUs on which each of the streams may run.
    pub cpus: CpuSet,
    /// Node of their buffers.
    pub memory: NodeId,
    /// How many there are.
    pub streams: u32,
    /// Device write or device read.
    pub direction: Direction,
}

/// The way that data takes to a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "through", rename_all = "lowercase")]
pub enum IoPath {
    /// A block device or a file.
    Disk(DiskPath),
    /// TCP to a peer: a device write sends, a device read receives.
    Tcp(TcpPath),
    /// A GPU: a device write is a download, a device read a readback.
    Gpu {
        /// The driver's index.
        device: u32,
    },
    /// Nothing: every request is done as soon as it is made. What is measured is our own overhead.
    Null,
}

/// Where on a disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskPath {
    /// The device or file.
    pub path: String,
    /// First byte that may be touched.
    pub at: u64,
    /// Bytes that may be touched; streams divide them.
    pub bytes: u64,
    /// How requests are made.
    pub method: DiskMethod,
    /// Whether the page cache is passed by (`O_DIRECT`).
    pub direct: bool,
    /// In which order.
    pub order: DiskOrder,
}

/// How requests to a disk are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMethod {
    /// io_uring, with registered buffers and file.
    Uring,
    /// `io_submit` and `io_getevents` (Linux AIO).
    Aio,
    /// A thread for each request in flight, with `pread` and `pwrite`.
    Threads,
}

/// In which order blocks are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskOrder {
    /// One after the other, from the beginning again after the end.
    Sequential,
    /// At random, each block as often.
    Random,
}

/// The other end of a network path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TcpPath {
    /// Address and port at which the peer listens, as in `192.0.2.7:5201` or `[2001:db8::1]:5201`.
    pub peer: String,
    /// The peer's CPUs and node of buffers, if it is to place its streams; it chooses otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<(CpuSet, NodeId)>,
}

/// Another program, run one or several times at once, each bound to CPUs and a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolWorkload {
    /// Its name, found on PATH.
    pub program: String,
    /// The processes.
    pub processes: Vec<ToolProcess>,
    /// Milliseconds after which they are ended.
    pub time_limit_ms: u32,
    /// The other end, of tools that measure between two hosts. `{port}` in a process's arguments stands for the
    /// port at which its other end listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<ToolPeer>,
}

/// The other end of a tool: the same program, started by the numaio there, once for each process here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolPeer {
    /// Address and port at which the peer's numaio listens, as in [`TcpPath`].
    pub peer: String,
    /// Arguments; the port is added to them.
    pub args: Vec<String>,
    /// CPUs and node of memory to which it is bound there; where the peer chooses otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<(CpuSet, NodeId)>,
}

/// One process of a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolProcess {
    /// Arguments.
    pub args: Vec<String>,
    /// CPUs it may run on; empty for all that numaio may.
    pub cpus: CpuSet,
    /// Node to which its memory is bound; none for the kernel's choice.
    pub memory: Option<NodeId>,
}

impl IoWorkload {
    /// Streams of all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }
}

impl IoPath {
    /// The device or peer, for people.
    pub fn name(&self) -> String {
        match self {
            Self::Disk(disk) => disk.path.clone(),
            Self::Tcp(tcp) => tcp.peer.clone(),
            Self::Gpu { device } => format!("cuda:{device}"),
            Self::Null => "null".to_owned(),
        }
    }
}

impl DiskMethod {
    /// All methods, the best first.
    pub const ALL: [Self; 3] = [Self::Uring, Self::Aio, Self::Threads];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Aio => "aio",
            Self::Threads => "threads",
        }
    }
}

impl fmt::Display for StreamGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, memory, streams, direction } = self;
        write!(f, "{streams} x {} on CPUs {cpus}, buffers on node {memory}", direction.name())
    }
}

impl fmt::Display for IoWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I/O of {}", self.through.name())?;
        if let IoPath::Disk(disk) = &self.through {
            write!(f, " ({})", disk.method.name())?;
        }
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        write!(f, ": {}; {} bytes a block, {} in flight", groups.join("; "), self.block_bytes, self.depth)
    }
}

impl fmt::Display for ToolWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for (index, process) in self.processes.iter().enumerate() {
            let between = if index == 0 { "" } else { "; beside it" };
            write!(f, "{between} {}", process.args.join(" "))?;
            if !process.cpus.is_empty() {
                write!(f, " on CPUs {}", process.cpus)?;
            }
            if let Some(node) = process.memory {
                write!(f, ", memory on node {node}")?;
            }
        }
        Ok(())
    }
}
