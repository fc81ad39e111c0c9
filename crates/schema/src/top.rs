//! A snapshot of a running machine: nodes, devices, programs and transfers with their rates.

use crate::read::{schema_of, DocumentError};
use crate::{BalanceReason, DeviceUse, Nearness, UnknownTraffic};
use numaio_machine::devices::DeviceKind;
use numaio_machine::ids::NodeId;
use numaio_machine::programs::{IoRates, Pressure, ProgramMemory};
use numaio_machine::set::CpuSet;
use numaio_machine::sockets::TrafficRates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rates of nodes, devices, programs and transfers over one interval.
///
/// A recording of `numaio top` is a sequence of these documents, one on each line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopSnapshot {
    /// [`TOP_SCHEMA`](crate::TOP_SCHEMA).
    pub schema: String,
    /// Version of numaio that wrote the document.
    pub numaio: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// Time of the snapshot in milliseconds since 1970.
    pub taken_at_ms: u64,
    /// Length of the interval that rates refer to, in seconds; 0 if there are no rates yet.
    pub interval_s: f64,
    /// Shares of time in which tasks waited; the kernel reports them for the machine only.
    pub pressure: Pressure,
    /// The nodes, by number.
    pub nodes: Vec<TopNode>,
    /// Storage devices and network interfaces, by name.
    pub devices: Vec<TopDevice>,
    /// Programs, by process ID; threads of the kernel are omitted.
    pub programs: Vec<TopProgram>,
    /// Programs without CPU time and I/O that a recording omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_programs: u64,
    /// Transfers of the daemon and running jobs of this user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TopTransfer>,
    /// Values that are unknown, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownValue>,
}

/// A node and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopNode {
    /// The node.
    pub node: NodeId,
    /// Number of online CPUs.
    pub cpus: u32,
    /// CPUs in use, from 0 to `cpus`; `None` if there are no rates yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus: Option<f64>,
    /// Total memory in bytes; `None` for a node without memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Free memory in bytes.
    pub free_bytes: u64,
    /// Page cache that can be dropped for other memory, in bytes.
    pub reclaimable_bytes: u64,
    /// Bytes per second between the caches of the node and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<NodeTraffic>,
    /// Bytes per second of the devices of the node; `None` without a device that has counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_s: Option<f64>,
}

/// Memory traffic of the caches of a node, in bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeTraffic {
    /// With memory of any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes_per_s: Option<f64>,
    /// With memory of the same node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_bytes_per_s: Option<f64>,
}

/// A device and its rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopDevice {
    /// Name, unique on the machine.
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Its node; `None` if unknown.
    pub node: Option<NodeId>,
    /// Bytes per second from the device to memory: read, or received; `None` if unknown.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second from memory to the device: written, or sent; `None` if unknown.
    pub write_bytes_per_s: Option<f64>,
}

/// A program, its place and its rates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopProgram {
    /// Process ID.
    pub pid: u32,
    /// Start time in clock ticks since boot; with the process ID it is unique within a boot.
    pub start_time: u64,
    /// Name, at most 15 bytes.
    pub name: String,
    /// The virtual machine that it runs; `None` if it is no hypervisor, or was not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Effective user ID; `None` if the program was idle, and not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// systemd unit, if its control group names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// CPUs in use; `None` if there are no rates yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Number of threads by node of the CPU on which they run or last ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub threads_on: BTreeMap<NodeId, u32>,
    /// CPUs in use on each node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpus_on: BTreeMap<NodeId, f64>,
    /// CPUs on which at least one thread may run; `None` if not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<CpuSet>,
    /// Memory by kind and node; `None` if not permitted or not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ProgramMemory>,
    /// I/O in bytes per second; `None` if not permitted, or if there are no rates yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoRates>,
    /// Bytes per second of its TCP sockets by network device; empty without traffic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network: BTreeMap<String, TrafficRates>,
    /// Why the traffic of its sockets is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_network: Option<UnknownTraffic>,
    /// Devices behind open files and connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// How much of the program is near its devices; `None` without devices of a known node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearness: Option<Nearness>,
    /// The remote share; `None` if not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteShare>,
    /// The move near its device, if only nearness is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The advice of `numaio balance`; `None` if not inspected, or if there are no rates yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<BalanceAdvice>,
    /// Why the program was inspected only partially.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The advice of `numaio balance` on a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BalanceAdvice {
    /// The node to move to; `None` to stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeId>,
    /// Predicted rate on that node, in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_s: Option<f64>,
    /// Why.
    pub reason: BalanceReason,
}

/// The part of a program that is remote.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RemoteShare {
    /// The share, from 0 to 1.
    pub share: f64,
    /// The resources that are remote.
    pub from: RemoteFrom,
}

/// A resource that is remote from a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RemoteFrom {
    /// Its devices: the larger of the shares of threads and of memory that are not near them.
    Devices,
    /// Its memory: the probability that a thread and a byte of the program are on different nodes.
    Memory,
}

/// A transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopTransfer {
    /// Source of the entry.
    pub source: TransferSource,
    /// Number of the job; `None` for a transfer of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// The user; empty for a job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The transferred objects.
    pub subject: String,
    /// The state, such as `transferring` or `waiting`.
    pub state: String,
    /// Position in the queue, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Devices that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Bytes so far.
    pub bytes: u64,
    /// Bytes per second; `None` if there are no rates yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

/// Source of a transfer's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferSource {
    /// The queue of the daemon of this host.
    Daemon,
    /// A job of this user.
    Job,
}

/// A value that is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct UnknownValue {
    /// The value, such as `memory traffic`.
    pub name: String,
    /// The reason.
    pub reason: String,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TopProgram {
    /// Returns whether the program used CPU time or I/O in the interval.
    pub fn is_active(&self) -> bool {
        self.cpus.is_some_and(|cpus| cpus > 0.0) || self.io_bytes_per_s().is_some_and(|rate| rate > 0.0)
    }

    /// Returns the bytes of I/O per second; `None` if unknown.
    ///
    /// It is the larger of requested bytes and the traffic of storage and sockets: accesses to
    /// mapped files and send(2) are not requests, and cached data does not reach a device.
    pub fn io_bytes_per_s(&self) -> Option<f64> {
        let network: f64 = self.network.values().map(|rates| rates.total()).sum();
        let io = self.io.map(|io| (io.requested_read + io.requested_write).max(io.storage() + network));
        io.or_else(|| (network > 0.0).then_some(network))
    }

    /// Returns the sum of the memory, without mapped files; `None` if unknown.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.bytes_on()?.into_values().fold(0, u64::saturating_add))
    }

    /// Returns memory by node, without mapped files; `None` if unknown.
    pub fn bytes_on(&self) -> Option<BTreeMap<NodeId, u64>> {
        let memory = self.memory.as_ref()?;
        let mut sums: BTreeMap<NodeId, u64> = BTreeMap::new();
        let kinds = [&memory.private, &memory.bound, &memory.shared, &memory.huge];
        for (node, bytes) in kinds.into_iter().flatten() {
            let sum = sums.entry(*node).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        Some(sums)
    }
}

/// A recording of `numaio top`: snapshots in order of time, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct TopRecording {
    /// The snapshots.
    pub snapshots: Vec<TopSnapshot>,
    /// Whether the last line was incomplete, as after a crash, and is left out.
    pub is_truncated: bool,
}

/// A line of a recording that is not a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct RecordingError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The reason.
    #[source]
    pub why: DocumentError,
}

impl TopRecording {
    /// Returns whether a text starts like a recording: with a snapshot of any version.
    pub fn is_recording(text: &str) -> bool {
        let first = text.lines().next().unwrap_or_default();
        let kind = TopSnapshot::SCHEMA.trim_end_matches(|c: char| c.is_ascii_digit());
        schema_of(first).is_ok_and(|schema| schema.starts_with(kind))
    }

    /// Parses newline-delimited snapshots.
    ///
    /// # Errors
    /// A line is not a snapshot, other than an incomplete last line.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut snapshots = Vec::new();
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
        while let Some((index, line)) = lines.next() {
            match TopSnapshot::from_json(line) {
                Ok(snapshot) => snapshots.push(snapshot),
                Err(DocumentError::NotJson(error))
                    if error.is_eof() && lines.peek().is_none() && !snapshots.is_empty() =>
                {
                    return Ok(Self { snapshots, is_truncated: true });
                }
                Err(why) => return Err(RecordingError { line: index + 1, why }),
            }
        }
        match snapshots.is_empty() {
            true => Err(RecordingError { line: 1, why: DocumentError::NoSchema }),
            false => Ok(Self { snapshots, is_truncated: false }),
        }
    }
}

impl BalanceAdvice {
    /// Returns whether no gain is known, because the node of the device has no model.
    pub fn is_unmodeled(&self) -> bool {
        matches!(self.reason, BalanceReason::NoModel { .. })
    }
}
