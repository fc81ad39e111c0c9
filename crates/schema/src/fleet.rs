//! Data of a fleet: hosts, the facts that describe each, and figures measured on them.
//!
//! The store of a fleet and the statistics over it share these types, and neither knows the other.

use numaio_machine::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Hosts with their facts and figures. The rows refer to hosts and keys by index, because a fleet
/// of 10,000 hosts has millions of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetData {
    /// The hosts.
    pub hosts: Vec<FleetHost>,
    /// The distinct quantities.
    pub keys: Vec<FigureKey>,
    /// The values, in any order.
    pub figures: Vec<FigureRow>,
}

/// A host of a fleet, and its newest facts.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetHost {
    /// The name that the fleet uses: Slurm's node name, ssh's destination, or the host name.
    pub name: String,
    /// Time of the facts, in seconds since 1970.
    pub observed_at: u64,
    /// The facts, by name.
    pub facts: Vec<Fact>,
}

/// One fact about a host, such as `cpu-model` or `pci 0000:3b:00.0 link`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Fact {
    /// The meaning of a difference between two hosts in this fact.
    pub kind: FactKind,
    /// A stable name.
    pub name: String,
    /// The value as users read it.
    pub value: String,
}

/// The meaning of a difference between two hosts in a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FactKind {
    /// They are different hardware and never compared: CPU model, number of CPUs, device models.
    Hardware,
    /// They should be equal on like hardware, do not change while a machine runs, and explain
    /// figures: nodes, distances, memory modules, slots and lanes of devices.
    Structure,
    /// They should be equal on like hosts, and may change while a machine runs: kernel, microcode,
    /// huge pages, interrupt placement, speeds of links, memory and volumes of guests.
    Setting,
}

/// A measured or stated quantity of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FigureKey {
    /// A stable name, such as `copy-read`, `latency` or `stream-triad-cpu-centric`.
    pub quantity: String,
    /// The node of the data's source, or the only node; `None` for a figure of a complete host.
    pub from: Option<NodeId>,
    /// The node of the data's destination.
    pub to: Option<NodeId>,
    /// The device, by name; empty without one.
    pub device: String,
    /// The unit of the values: `B/s`, `ns`, or as the program that measured states it.
    pub unit: String,
    /// Whether higher values are better.
    pub more_is_better: bool,
}

/// A value of a quantity on a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureRow {
    /// Index of the host.
    pub host: u32,
    /// Index of the key.
    pub key: u32,
    /// Time of measurement, in seconds since 1970.
    pub measured_at: u64,
    /// The value.
    pub value: f64,
    /// The 95 % interval of the value; both ends are the value if it is unknown.
    pub interval: (f64, f64),
}

/// The newest figures of a group of hosts, as deviations from the group's medians.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviationMap {
    /// Name of the group.
    pub group: String,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The quantities, sorted.
    pub keys: Vec<FigureKey>,
    /// The group's median of each quantity.
    pub medians: Vec<f64>,
    /// Deviations as shares, host by host, in the order of the keys; negative is worse, NaN is
    /// missing.
    pub deviations: Vec<f32>,
}

/// How the figures of a host deviated over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HostHistory {
    /// The host.
    pub host: String,
    /// Times in seconds since 1970, each with the median deviation of its figures from the group's
    /// present medians, as a share; negative is worse.
    pub points: Vec<(u64, f64)>,
}
