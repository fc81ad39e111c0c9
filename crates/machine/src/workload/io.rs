//! I/O between memory and a device, and measurements by external programs.

use super::common::{Direction, Sampling};
use super::ping::Rail;
use crate::ids::NodeId;
use crate::set::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Concurrent I/O streams of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoWorkload {
    /// The device and its access method.
    pub path: IoPath,
    /// Further devices of the same kind, whose streams run at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<IoPath>,
    /// Streams by device, CPUs and node; several groups form a mix.
    pub groups: Vec<StreamGroup>,
    /// Size of a request, message or transfer in bytes.
    pub block_bytes: u64,
    /// Outstanding requests per stream.
    pub depth: u32,
    /// Sampling and end of the run.
    pub sampling: Sampling,
    /// Total bytes of all streams at which the run ends early; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Streams on the same CPUs with buffers on the same node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamGroup {
    /// CPUs on which each stream may run.
    pub cpus: CpuSet,
    /// Node of the buffers.
    pub memory: NodeId,
    /// Number of streams.
    pub streams: u32,
    /// Device write or device read.
    pub direction: Direction,
    /// Index of the device among all of the workload or record; 0 if there is only one.
    #[serde(default, skip_serializing_if = "is_first")]
    pub device: usize,
}

/// Whether a device is the first one, which documents omit.
fn is_first(device: &usize) -> bool {
    *device == 0
}

/// The path of data to a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
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
    /// No device: requests complete immediately, which measures numaio's own overhead.
    Null,
}

/// A range of a disk and its access method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DiskPath {
    /// Path of the device or file.
    pub path: String,
    /// Offset of the range in bytes.
    pub offset: u64,
    /// Size of the range in bytes; streams divide it.
    pub bytes: u64,
    /// Submission method.
    pub method: DiskMethod,
    /// Whether to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Order of the blocks.
    pub order: DiskOrder,
}

/// Submission methods for disk requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskMethod {
    /// io_uring, with registered buffers and file.
    Uring,
    /// `io_submit` and `io_getevents` (Linux AIO).
    Aio,
    /// A thread for each outstanding request, with `pread` and `pwrite`.
    Threads,
}

/// Order in which blocks are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskOrder {
    /// Sequential, wrapping around at the end.
    Sequential,
    /// Random, each block equally often.
    Random,
}

/// The peer of a network path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TcpPath {
    /// Name of the session with the peer: its host, or `192.0.2.7:5201` or `[2001:db8::1]:5201` for
    /// a manually started server.
    pub peer: String,
    /// CPUs and memory node of the peer's streams; `None` lets the peer choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_placement: Option<(CpuSet, NodeId)>,
    /// Congestion control of the streams at both ends; `None` for each machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Addresses of both ends; `None` for those of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<Rail>,
}

/// An external program, run as one or several concurrent processes, each bound to CPUs and a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolWorkload {
    /// Name of the program, found on PATH.
    pub program: String,
    /// The processes.
    pub processes: Vec<ToolProcess>,
    /// Milliseconds after which the processes are killed.
    pub time_limit_ms: u32,
    /// Peer of tools that measure between two hosts.
    ///
    /// `{port}` in a process's arguments is replaced by the listening port of its peer process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<ToolPeer>,
}

/// The peer processes of a tool, one for each local process, started by the peer's numaio.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolPeer {
    /// Name of the session with the peer, as in [`TcpPath`].
    pub peer: String,
    /// Arguments; numaio appends the port.
    pub args: Vec<String>,
    /// CPUs and memory node of the peer processes; `None` lets the peer choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_placement: Option<(CpuSet, NodeId)>,
}

/// A process of a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ToolProcess {
    /// Arguments.
    pub args: Vec<String>,
    /// CPUs on which it may run; empty for all CPUs of numaio.
    pub cpus: CpuSet,
    /// Node of its memory; `None` for the kernel's choice.
    pub memory: Option<NodeId>,
}

impl IoWorkload {
    /// Returns the number of streams in all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }

    /// Returns the paths of all devices, in the order of [`StreamGroup::device`].
    pub fn paths(&self) -> impl Iterator<Item = &IoPath> {
        std::iter::once(&self.path).chain(&self.others)
    }

    /// Returns whether every group of streams names a device.
    pub fn has_all_devices(&self) -> bool {
        self.groups.iter().all(|group| group.device <= self.others.len())
    }
}

impl IoPath {
    /// Returns the display name of the device or peer.
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
    /// All methods, the preferred first.
    pub const ALL: [Self; 3] = [Self::Uring, Self::Aio, Self::Threads];

    /// Returns the name in options and documents.
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
        let Self { cpus, memory, streams, direction, device } = self;
        write!(f, "{streams} x {} on CPUs {cpus}, buffers on node {memory}", direction.name())?;
        match device {
            0 => Ok(()),
            device => write!(f, ", device {}", device + 1),
        }
    }
}

impl fmt::Display for IoWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.paths().map(IoPath::name).collect();
        write!(f, "I/O of {}", names.join(" and "))?;
        if let IoPath::Disk(disk) = &self.path {
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
