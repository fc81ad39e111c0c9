//! I/O of a device, measured.

use crate::{DocumentError, Provenance, Reading, Rounds, Summary};
use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, StreamGroup};
use serde::{Deserialize, Serialize};

/// Version of [`IoRecord`].
pub const IO_SCHEMA: &str = "numaio/io/1";

/// Bandwidth of a device, measured from nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoRecord {
    /// [`IO_SCHEMA`].
    pub schema: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// What was measured.
    pub device: IoDevice,
    /// How.
    pub method: IoMethod,
    /// One for each placement, direction, block size and number of streams.
    pub cells: Vec<IoCell>,
    /// The device at the other end of a network path, as the peer tells.
    #[serde(rename = "there", default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IoDevice>,
}

/// A device that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoDevice {
    /// Its usual name, as in `nvme0n1`, `eth0`, `cuda:0`.
    pub name: String,
    /// What it is called; may be empty.
    #[serde(default)]
    pub model: String,
    /// PCI address, where it has one.
    pub pci: Option<String>,
    /// The node it hangs on; none if unknown.
    pub node: Option<NodeId>,
    /// The file, or the peer's address, by which it was reached, if not by its name.
    #[serde(rename = "by_way_of")]
    pub reached_via: Option<String>,
    /// Its interrupts as they were; nothing was changed.
    #[serde(default)]
    pub irqs: Vec<Irq>,
}

/// How I/O was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoMethod {
    /// What moved the data.
    pub engine: IoEngine,
    /// Its version, as it names itself; of our own, numaio's.
    pub version: String,
    /// Requests of a stream in flight.
    pub depth: u32,
    /// How requests to a disk were made, and in which order.
    pub disk: Option<(DiskMethod, DiskOrder)>,
    /// Whether the page cache was passed by.
    pub direct: Option<bool>,
    /// Bytes of the device or file that were touched.
    pub area_bytes: Option<u64>,
    /// Which nodes stand for which, if not every node was measured.
    #[serde(default)]
    pub represented: Vec<ClassRepresentative>,
    /// What was done otherwise than asked, and why.
    #[serde(default)]
    pub notes: Vec<String>,
    /// When it ended.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// What moves data when I/O is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoEngine {
    /// Our own disk engine.
    Disk,
    /// fio.
    Fio,
    /// Our own TCP streams.
    Tcp,
    /// iperf3.
    Iperf3,
    /// perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_bw`.
    Perftest,
    /// Our own GPU engine over the CUDA driver.
    Cuda,
    /// nvbandwidth.
    Nvbandwidth,
    /// Nothing is moved: our own overhead.
    Null,
}

/// One node that stands for its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRepresentative {
    /// Direction of the class.
    pub direction: Direction,
    /// The node that was measured.
    pub by: NodeId,
    /// All nodes of its class, itself among them.
    pub nodes: Vec<NodeId>,
}

/// What streams in one placement gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoCell {
    /// The streams; one group is a placement, several are a mix.
    pub groups: Vec<StreamGroup>,
    /// Node of the CPUs of each group, in their order.
    pub cpu_nodes: Vec<NodeId>,
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// What was asked of the device beyond direction, as in `write` or `send` of RDMA; none where there is no choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Bandwidth of all groups together.
    pub bytes_per_s: Reading,
    /// Bandwidth of each group of a mix, over the visits; empty of a single group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_groups: Vec<Option<Summary>>,
    /// CPU time a byte, in nanoseconds, user and system of the processes that moved the data, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_byte: Option<f64>,
    /// Who was at the other end of a network path.
    #[serde(rename = "there", default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IoRemoteEnd>,
}

/// The other end of streams through a network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IoRemoteEnd {
    /// Nodes of its CPUs.
    pub cpu_nodes: NodeSet,
    /// Node of its buffers; none where a program chose.
    pub memory: Option<NodeId>,
    /// Its CPU time a byte, in nanoseconds, user and system of the processes that moved the data, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_byte: Option<f64>,
}

impl IoEngine {
    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Fio => "fio",
            Self::Tcp => "tcp",
            Self::Iperf3 => "iperf3",
            Self::Perftest => "perftest",
            Self::Cuda => "cuda",
            Self::Nvbandwidth => "nvbandwidth",
            Self::Null => "null",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Disk => "built-in disk",
            Self::Tcp => "built-in TCP",
            Self::Cuda => "built-in CUDA",
            Self::Null => "nothing (overhead)",
            tool => tool.name(),
        }
    }
}

impl IoCell {
    /// Streams of all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }

    /// The one placement of it, if it is no mix: node of the CPUs, node of the buffers, direction.
    pub fn placement(&self) -> Option<(NodeId, NodeId, Direction)> {
        match (self.groups.as_slice(), self.cpu_nodes.as_slice()) {
            ([group], [cpu_node]) => Some((*cpu_node, group.memory, group.direction)),
            _ => None,
        }
    }
}

impl IoRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, IO_SCHEMA)
    }
}
