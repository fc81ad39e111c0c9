//! Views of a target, however found, and what a comparison says of them.
//!
//! A view is what one method says of every node seen from a target: hop distance, latency, STREAM, the copy
//! model, measured I/O. Whatever becomes a view can be compared with every other one.

use crate::{DocumentError, Warning};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Version of [`View`] as a document of its own.
pub const VIEW_SCHEMA: &str = "numaio/view/1";
/// Version of [`Comparison`].
pub const COMPARISON_SCHEMA: &str = "numaio/comparison/1";

/// What one method says of every node seen from a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// [`VIEW_SCHEMA`].
    pub schema: String,
    /// Stable name, as in `slit`, `latency`, `stream-copy-cpu-centric`, `copy-read`.
    pub name: String,
    /// Name for people, as in `STREAM copy, CPU-centric`.
    pub title: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The target.
    pub target: NodeId,
    /// The direction of I/O that it speaks of; none if it does not tell directions apart.
    pub direction: Option<Direction>,
    /// What the values are.
    pub quantity: Quantity,
    /// One for each node that has a value, by node.
    pub nodes: Vec<NodeValue>,
    /// How far below a class's best its members may be, as a share.
    pub level: f64,
    /// Classes by the rule `measured`, best first.
    pub classes: Vec<ViewClass>,
    /// Whether it comes from a measurement that was not finished.
    pub incomplete: bool,
    /// Seconds since 1970 at which it was measured; none of what is stated, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<u64>,
}

/// What a view's values are, and in which unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A distance without unit, 10 for local (ACPI SLIT). Less is better.
    Distance,
    /// Nanoseconds a load. Less is better.
    NsPerLoad,
    /// Bytes per second. More is better.
    BytesPerS,
}

/// One node's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeValue {
    /// The node.
    pub node: NodeId,
    /// The value, a median where it was measured.
    pub value: f64,
    /// 95 % interval of the median; none of what is stated and not measured.
    pub interval: Option<(f64, f64)>,
    /// Number of measurements; 0 of what is stated.
    pub n: u32,
    /// Later over earlier measurements, less one.
    pub drift: f64,
    /// How many times worse than the target itself: NUMA factor, or bandwidth NUMA factor. None if the target
    /// has no value.
    pub factor: Option<f64>,
}

/// Nodes of one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewClass {
    /// 1 is best.
    pub rank: u32,
    /// Its nodes.
    pub nodes: NodeSet,
    /// Least value of a member.
    pub min: f64,
    /// Greatest value of a member.
    pub max: f64,
    /// Mean value of its members.
    pub mean: f64,
}

/// All views of one target beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: String,
    /// Version of numaio that compared.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Seconds since 1970 of the newest measurement among the views.
    pub measured_at: u64,
    /// The target.
    pub target: NodeId,
    /// Names of devices attached to it.
    pub devices: Vec<String>,
    /// The views, in the order of their columns.
    pub views: Vec<View>,
    /// Every pair of views, the first one earlier among the columns.
    pub agreements: Vec<Agreement>,
    /// What is missing or doubtful.
    pub warnings: Vec<Warning>,
}

/// How far two views agree, over the nodes that both know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Name of a view.
    pub first: String,
    /// Name of another.
    pub second: String,
    /// Nodes that both know.
    pub nodes: NodeSet,
    /// Kendall's tau-b, from -1 (reversed) to 1 (same order). Nodes that a view cannot tell apart are ties.
    /// None where a view ties all nodes, so that there is no order to agree with.
    pub tau_b: Option<f64>,
    /// Pairs that both views tell apart and order the same way.
    pub concordant: u32,
    /// Pairs that only one view tells apart.
    pub tied_in_one: u32,
    /// Pairs that neither tells apart.
    pub tied_in_both: u32,
    /// Pairs that both tell apart and order differently.
    pub inversions: Vec<Inversion>,
    /// Whether both put these nodes into the same classes.
    pub same_classes: bool,
}

/// Two nodes that two views put in opposite orders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inversion {
    /// The better node in the first view, the worse one in the second.
    pub better_in_first: NodeId,
    /// The better node in the second view.
    pub better_in_second: NodeId,
    /// How many times better the better one is in the first view.
    pub factor_in_first: f64,
    /// How many times better the better one is in the second view.
    pub factor_in_second: f64,
}

impl View {
    /// Reads a view.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, VIEW_SCHEMA)
    }

    /// The value of a node.
    pub fn node(&self, node: NodeId) -> Option<&NodeValue> {
        self.nodes.iter().find(|value| value.node == node)
    }
}

impl Comparison {
    /// Reads a comparison.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, COMPARISON_SCHEMA)
    }
}

impl Quantity {
    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        self == Self::BytesPerS
    }
}
