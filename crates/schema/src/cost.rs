//! Costs of a running program's remote memory and devices.

use crate::DeviceUse;
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The predicted slowdown of a program against its best placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramCost {
    /// [`COST_SCHEMA`](crate::COST_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Time of observation in seconds since 1970.
    pub observed_at: u64,
    /// Process ID; `None` for a command that numaio started.
    pub pid: Option<u32>,
    /// Name of the process, or the command.
    pub name: String,
    /// The activity of the program.
    pub traffic: ProgramTraffic,
    /// Slowdown of its CPU time by the place of its memory; `None` if it used no CPU or has no
    /// memory, or nothing about the nodes is known.
    pub memory: Option<MemoryCost>,
    /// Slowdown of its I/O by the place of its memory, for each device.
    pub devices: Vec<DeviceCost>,
    /// Slowdown of its complete run time: each part of the time has one of the above, or none.
    /// `None` if that of a part is unknown.
    pub slowdown: Option<Slowdown>,
    /// The node on which it would run best; `None` if nothing about the nodes is known.
    pub best: Option<NodeId>,
    /// Measurements that would narrow the intervals.
    pub unknown: Vec<UnknownPart>,
}

/// The activity of a program while it was observed, with its descendants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramTraffic {
    /// Time of observation in seconds.
    pub seconds: f64,
    /// Whether the process ended before the time was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// CPUs in use by node: 1 is one CPU all the time.
    pub cpus_on: BTreeMap<NodeId, f64>,
    /// Bytes of memory by node, without mapped files; the mean of the observations. Empty if the
    /// kernel denies access.
    pub bytes_on: BTreeMap<NodeId, f64>,
    /// Bytes per second from and to storage; `None` if the kernel denies access.
    pub storage_read: Option<f64>,
    /// See `storage_read`.
    pub storage_write: Option<f64>,
    /// Share of loads from memory that memory of the CPU's node served, by hardware counters.
    pub local_loads: Option<f64>,
    /// Share of CPU time in which cores waited for memory or another resource, by hardware
    /// counters.
    pub stalled: Option<f64>,
    /// Devices behind its open files and connections.
    pub devices: Vec<DeviceUse>,
}

/// A run time relative to that with the best placement: 1 means none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Slowdown {
    /// The expected value; `None` if the interval is all that is known.
    pub expected: Option<f64>,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Slowdown of CPU time by the place of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MemoryCost {
    /// Slowdown of all CPU time.
    pub slowdown: Slowdown,
    /// Time of an access to memory relative to the best placement, over all pairs of CPU node and
    /// memory node.
    pub access: Slowdown,
    /// Pairs of nodes with their share of the accesses.
    pub pairs: Vec<PairShare>,
    /// Where the times of accesses come from.
    pub basis: Vec<AccessBasis>,
}

/// Share of the accesses of one pair of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PairShare {
    /// The node of the CPUs.
    pub cpu_node: NodeId,
    /// The node of the memory.
    pub memory_node: NodeId,
    /// Share of the accesses, from 0 to 1.
    pub share: f64,
    /// Time of an access relative to the fastest local pair: the lower and the higher one of the
    /// measured quantities.
    pub access: (f64, f64),
}

/// A measured quantity of pairs of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AccessBasis {
    /// STREAM bandwidth: for programs whose accesses overlap.
    Stream,
    /// Idle latency: for programs whose accesses depend on each other.
    Latency,
}

/// Slowdown of I/O by the place of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceCost {
    /// The device.
    pub device: String,
    /// The direction of the transfers.
    pub direction: Direction,
    /// Slowdown of the I/O.
    pub slowdown: Slowdown,
    /// The source of the bandwidths by node, such as `disk, measured I/O`.
    pub basis: String,
}

/// Something that is unknown, and how to measure it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct UnknownPart {
    /// The unknown quantity.
    pub name: String,
    /// The command or step that measures it.
    pub remedy: String,
}

impl Slowdown {
    /// No slowdown.
    pub const NONE: Self = Self { expected: Some(1.0), low: 1.0, high: 1.0 };
}
