//! The groups of a fleet, and one host beside its group.

use crate::{Fact, FigureKey, FleetGroup};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use serde::{Deserialize, Serialize};

/// The groups of a fleet, with their classes, figures and differences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetSummary {
    /// [`FLEET_SUMMARY_SCHEMA`](crate::FLEET_SUMMARY_SCHEMA).
    pub schema: String,
    /// Version of numaio that summarized.
    pub numaio: String,
    /// Number of hosts of the fleet.
    pub hosts: u32,
    /// The groups, largest first; on request only one.
    pub groups: Vec<GroupSummary>,
}

/// A group of like hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupSummary {
    /// Its name, common facts and hosts.
    #[serde(flatten)]
    pub group: FleetGroup,
    /// Facts with several values, structure first.
    pub differences: Vec<FactDifference>,
    /// Bandwidth classes of the group's median copy bandwidths.
    pub classes: Vec<GroupClasses>,
    /// Classes of all pairs of nodes, for each quantity.
    #[serde(default)]
    pub pair_classes: Vec<GroupPairClasses>,
    /// The figures.
    pub figures: Vec<GroupFigure>,
}

/// A fact with several values in a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FactDifference {
    /// The fact, with the most frequent value.
    #[serde(flatten)]
    pub fact: Fact,
    /// Number of hosts with this value.
    pub hosts: u32,
    /// The other values.
    pub others: Vec<FactVariant>,
}

/// A value of a fact that some hosts of a group have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FactVariant {
    /// The value; empty for hosts without the fact.
    pub value: String,
    /// Names of the hosts.
    pub hosts: Vec<String>,
}

/// Bandwidth classes toward a target of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupClasses {
    /// The quantity: `copy-read` or `copy-write`.
    pub quantity: String,
    /// The target.
    pub target: NodeId,
    /// The classes, best first.
    pub classes: Vec<NodeSet>,
}

/// Classes of all pairs of nodes by the group's medians of a quantity, by k-means, as in Table 4 of
/// Braithwaite et al. (2012).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupPairClasses {
    /// The quantity, without nodes.
    #[serde(flatten)]
    pub key: FigureKey,
    /// The classes, best first.
    pub classes: Vec<GroupPairClass>,
}

/// A class of pairs of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupPairClass {
    /// The rank; 1 is best.
    pub rank: u32,
    /// The pairs: source and destination of the data.
    pub pairs: Vec<(NodeId, NodeId)>,
    /// Lowest median of a pair.
    pub min: f64,
    /// Highest median of a pair.
    pub max: f64,
    /// Mean of the medians.
    pub mean: f64,
}

/// A figure of a group: the newest value of each host, and their median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GroupFigure {
    /// The quantity.
    #[serde(flatten)]
    pub key: FigureKey,
    /// Number of hosts with a value.
    pub count: u32,
    /// The median of the values.
    pub median: f64,
    /// The lowest value.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// The value of each host in the order of the group's hosts, `None` without one; empty unless
    /// the group was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<f64>>,
}

/// One host beside its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FleetHostSummary {
    /// [`FLEET_HOST_SCHEMA`](crate::FLEET_HOST_SCHEMA).
    pub schema: String,
    /// Version of numaio that summarized.
    pub numaio: String,
    /// The host.
    pub host: String,
    /// Time of its newest facts in seconds since 1970; 0 if unknown.
    pub observed_at: u64,
    /// Name of its group.
    pub group: String,
    /// Number of hosts of its group, itself included.
    pub group_hosts: u32,
    /// Its newest facts.
    pub facts: Vec<Fact>,
    /// Facts in which it differs from the group, with the most frequent value of the group.
    pub differences: Vec<FactDifference>,
    /// Its newest figures.
    pub figures: Vec<HostFigure>,
}

/// The newest value of a figure of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct HostFigure {
    /// The quantity.
    #[serde(flatten)]
    pub key: FigureKey,
    /// Time of measurement in seconds since 1970.
    pub measured_at: u64,
    /// The value.
    pub value: f64,
    /// The 95 % interval of the value.
    pub interval: (f64, f64),
    /// The median of the group, the host included.
    pub group_median: f64,
    /// The host's value before the newest, if it was measured more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<f64>,
}
