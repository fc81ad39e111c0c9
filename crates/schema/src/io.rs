//! Measured I/O of a device.

use crate::{Provenance, Reading, Rounds, Summary};
use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_machine::workload::{Direction, DiskMethod, DiskOrder, StreamGroup};
use serde::{Deserialize, Serialize};

/// Bandwidth of a device, measured from nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoRecord {
    /// [`IO_SCHEMA`](crate::IO_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The device.
    pub device: IoDevice,
    /// The method.
    pub method: IoMethod,
    /// One cell for each placement, direction, block size and number of streams.
    pub cells: Vec<IoCell>,
    /// The device at the other end of a network path, as the peer reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IoDevice>,
}

/// A measured device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoDevice {
    /// The usual name, such as `nvme0n1`, `eth0` or `cuda:0`.
    pub name: String,
    /// The model name; may be empty.
    #[serde(default)]
    pub model: String,
    /// PCI address, if it has one.
    pub pci: Option<String>,
    /// The node it is attached to; `None` if unknown.
    pub node: Option<NodeId>,
    /// The file or peer address through which it was accessed, if not by name.
    pub reached_via: Option<String>,
    /// The interrupts during the measurement, which did not change them.
    #[serde(default)]
    pub irqs: Vec<Irq>,
}

/// The method of an I/O measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoMethod {
    /// The engine that moved the data.
    pub engine: IoEngine,
    /// The version the engine reports; for built-in engines numaio's.
    pub version: String,
    /// Requests in flight per stream.
    pub depth: u32,
    /// How requests to a disk were submitted, and in which order.
    pub disk: Option<(DiskMethod, DiskOrder)>,
    /// Whether I/O bypassed the page cache.
    pub direct: Option<bool>,
    /// Bytes of the accessed area of the device or file.
    pub area_bytes: Option<u64>,
    /// Settings of the network, for engines that use one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSettings>,
    /// Nodes that represent their class, if not every node was measured.
    #[serde(default)]
    pub represented: Vec<ClassRepresentative>,
    /// Differences from the request, with reasons.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Settings of TCP and of the interfaces at both ends; `None` for what is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NetworkSettings {
    /// Congestion control of this machine's streams, which counts for device writes.
    pub congestion: Option<String>,
    /// That of the peer's streams, which counts for device reads.
    pub remote_congestion: Option<String>,
    /// Maximum transmission unit of this machine's interface in bytes.
    pub mtu: Option<u32>,
    /// That of the peer's interface.
    pub remote_mtu: Option<u32>,
}

/// An engine that moves data to measure I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IoEngine {
    /// The built-in disk engine.
    Disk,
    /// fio.
    Fio,
    /// The built-in TCP engine.
    Tcp,
    /// iperf3.
    Iperf3,
    /// perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_bw`.
    Perftest,
    /// The built-in GPU engine, over the CUDA driver.
    Cuda,
    /// nvbandwidth.
    Nvbandwidth,
    /// No I/O; measures the overhead of numaio.
    Null,
}

/// A node that represents its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClassRepresentative {
    /// The direction of the class.
    pub direction: Direction,
    /// The node that was measured.
    pub node: NodeId,
    /// All nodes of the class, including the measured one.
    pub nodes: Vec<NodeId>,
}

/// The bandwidth of streams in one placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoCell {
    /// The streams; one group is a placement, several groups are a mix.
    pub groups: Vec<StreamGroup>,
    /// The CPU node of each group, in their order.
    pub cpu_nodes: Vec<NodeId>,
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// The operation beyond the direction, such as `write` or `send` of RDMA; `None` if there is
    /// only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Bandwidth of all groups together.
    pub bytes_per_s: Reading,
    /// Bandwidth of each group of a mix, over the visits; empty for a single group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_bytes_per_s: Vec<Option<Summary>>,
    /// Bytes per second that each load of the measurement read and wrote beside this cell, in their
    /// order; `None` for a command, and empty without load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_bytes_per_s: Vec<Option<Summary>>,
    /// CPU time per byte in nanoseconds: user and system time of the processes that moved the data,
    /// if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_byte: Option<f64>,
    /// The remote end of a network path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IoRemoteEnd>,
}

/// The remote end of network streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoRemoteEnd {
    /// The nodes of its CPUs.
    pub cpu_nodes: NodeSet,
    /// The node of its buffers; `None` if a program chose it.
    pub memory: Option<NodeId>,
    /// CPU time per byte in nanoseconds: user and system time of the processes that moved the data,
    /// if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_byte: Option<f64>,
}

/// Describes operations and block sizes of cells where they differ, as in ` (read, 64 KiB)`.
pub fn differing_settings(cells: &[(Option<&str>, u64)]) -> Vec<String> {
    let operations_differ = cells.windows(2).any(|pair| pair[0].0 != pair[1].0);
    let sizes_differ = cells.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let describe = |(operation, bytes): &(Option<&str>, u64)| {
        let operation = operation.filter(|_| operations_differ).map(str::to_owned);
        let settings: Vec<String> =
            operation.into_iter().chain(sizes_differ.then(|| format_size(*bytes))).collect();
        if settings.is_empty() {
            String::new()
        } else {
            format!(" ({})", settings.join(", "))
        }
    };
    cells.iter().map(describe).collect()
}

impl IoEngine {
    /// Returns the name in options and documents.
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

    /// Returns the name for users.
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
    /// Returns the number of streams of all groups.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).fold(0, u32::saturating_add)
    }

    /// Returns the CPU node, the node of the buffers and the direction of a placement; `None` for a
    /// mix.
    pub fn placement(&self) -> Option<(NodeId, NodeId, Direction)> {
        match (self.groups.as_slice(), self.cpu_nodes.as_slice()) {
            ([group], [cpu_node]) => Some((*cpu_node, group.memory, group.direction)),
            _ => None,
        }
    }

    /// Returns the CPU node and the node of the buffers of streams in both directions at once, with
    /// the same number of streams in each; `None` for one direction and for other mixes.
    pub fn duplex_placement(&self) -> Option<(NodeId, NodeId)> {
        let ([one, other], [cpu_node, other_cpu_node]) = (self.groups.as_slice(), self.cpu_nodes.as_slice())
        else {
            return None;
        };
        let reverse = StreamGroup { direction: other.direction, ..one.clone() };
        let is_duplex = one.direction != other.direction && reverse == *other && cpu_node == other_cpu_node;
        is_duplex.then_some((*cpu_node, one.memory))
    }

    /// Returns whether this cell has only the streams of one group of a mix, with everything else
    /// equal.
    pub fn is_alone(&self, mix: &IoCell, index: usize) -> bool {
        let settings = |cell: &IoCell| (cell.block_bytes, cell.operation.clone());
        let remote = |cell: &IoCell| {
            cell.remote.as_ref().map(|remote| (remote.cpu_nodes.clone(), remote.memory)).unwrap_or_default()
        };
        let has_group = mix.groups.get(index).is_some_and(|group| self.groups == [group.clone()]);
        has_group && settings(self) == settings(mix) && remote(self) == remote(mix)
    }
}
