//! Views of a target, and their comparison.
//!
//! A view holds one method's value for every node, seen from a target: hop distance, latency,
//! STREAM, the copy model or measured I/O. Any two views can be compared.

use crate::Warning;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// One method's values for every node, seen from a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct View {
    /// [`VIEW_SCHEMA`](crate::VIEW_SCHEMA).
    pub schema: String,
    /// A stable name, such as `slit`, `latency`, `stream-copy-cpu-centric` or `copy-read`.
    pub name: String,
    /// The name for users, such as `STREAM copy, CPU-centric`.
    pub title: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The target.
    pub target: NodeId,
    /// The direction of I/O; `None` for both at once, or if the values do not depend on it.
    pub direction: Option<Direction>,
    /// The quantity of the values.
    pub quantity: Quantity,
    /// The nodes with a value, by node.
    pub nodes: Vec<NodeValue>,
    /// Maximum difference between a member and the best of its class, as a share; by default 0.1.
    #[serde(default = "default_level")]
    pub level: f64,
    /// Classes by rule `measured`, best first; computed for a document without them.
    #[serde(default)]
    pub classes: Vec<ViewClass>,
    /// Whether the measurement is incomplete.
    #[serde(default)]
    pub incomplete: bool,
    /// Time of measurement in seconds since 1970; `None` for stated values, or if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<u64>,
}

fn default_level() -> f64 {
    0.1
}

/// The quantity and unit of a view's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A distance without unit, 10 for local (ACPI SLIT); lower is better.
    Distance,
    /// Nanoseconds per load; lower is better.
    NsPerLoad,
    /// Nanoseconds of a message; lower is better.
    Nanoseconds,
    /// Bytes per second; higher is better.
    BytesPerS,
    /// A figure of a program in its own unit; higher is better.
    Score,
    /// A figure of a program in its own unit, such as its time; lower is better.
    Cost,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeValue {
    /// The node.
    pub node: NodeId,
    /// The value; for measurements the median.
    pub value: f64,
    /// The 95 % interval of the median; `None` for stated values.
    pub interval: Option<(f64, f64)>,
    /// Number of measurements; 0 for stated values.
    #[serde(default)]
    pub n: u32,
    /// Drift: later over earlier measurements, minus 1.
    #[serde(default)]
    pub drift: f64,
    /// Factor by which the node is worse than the target: the NUMA factor or bandwidth NUMA factor.
    /// `None` if the target has no value.
    pub factor: Option<f64>,
}

/// A class of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ViewClass {
    /// The rank; 1 is best.
    pub rank: u32,
    /// The nodes.
    pub nodes: NodeSet,
    /// The lowest value.
    #[serde(default)]
    pub min: f64,
    /// The highest value.
    #[serde(default)]
    pub max: f64,
    /// The mean value.
    #[serde(default)]
    pub mean: f64,
}

/// The views of one target, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`](crate::COMPARISON_SCHEMA).
    pub schema: String,
    /// Version of numaio that compared.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Time of the newest measurement among the views, in seconds since 1970.
    pub measured_at: u64,
    /// The target.
    pub target: NodeId,
    /// Names of the attached devices.
    pub devices: Vec<String>,
    /// The views, in the order of their columns.
    pub views: Vec<View>,
    /// The agreement of every pair of views, in the order of their columns.
    pub agreements: Vec<Agreement>,
    /// Missing or doubtful data.
    pub warnings: Vec<Warning>,
}

/// The agreement of two views, over the nodes with values in both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// Name of the first view.
    pub first: String,
    /// Name of the second view.
    pub second: String,
    /// The nodes with values in both views.
    pub nodes: NodeSet,
    /// Kendall's tau-b, from -1 (reversed) to 1 (same order). Nodes that do not differ in a view
    /// are ties. `None` if all nodes of a view are ties.
    pub tau_b: Option<f64>,
    /// Pairs that differ in both views, in the same order.
    pub concordant: u32,
    /// Pairs that differ in one view only.
    pub tied_in_one: u32,
    /// Pairs that differ in neither view.
    pub tied_in_both: u32,
    /// Pairs that differ in both views, in opposite order.
    pub inversions: Vec<Inversion>,
    /// Whether both views have the same classes.
    pub same_classes: bool,
}

/// Two nodes in opposite order in two views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Inversion {
    /// The better node in the first view, the worse in the second.
    pub better_in_first: NodeId,
    /// The better node in the second view.
    pub better_in_second: NodeId,
    /// Factor by which the better node is better in the first view.
    pub factor_in_first: f64,
    /// Factor by which the better node is better in the second view.
    pub factor_in_second: f64,
}

impl View {
    /// Returns the value of a node.
    pub fn node(&self, node: NodeId) -> Option<&NodeValue> {
        self.nodes.iter().find(|value| value.node == node)
    }
}

impl Quantity {
    /// Returns whether higher values are better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::BytesPerS | Self::Score)
    }
}
