//! The copy model compared with measured I/O: Tables IV and V of Li et al. (ICPP 2013) for this
//! machine.

use crate::{Agreement, ClassRule, View, Warning};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// How well the classes of a target's model predict the bandwidth of its devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Validation {
    /// [`VALIDATION_SCHEMA`](crate::VALIDATION_SCHEMA).
    pub schema: String,
    /// Version of numaio that validated.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Time of the newest measurement among the views, in seconds since 1970.
    pub measured_at: u64,
    /// The target.
    pub target: NodeId,
    /// Names of the measured devices.
    pub devices: Vec<String>,
    /// One entry for each direction of the model with measured I/O.
    pub directions: Vec<ValidatedDirection>,
    /// Missing or doubtful data.
    pub warnings: Vec<Warning>,
}

/// One direction of a target: a table of the paper, and its evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ValidatedDirection {
    /// Device write or device read.
    pub direction: Direction,
    /// The rule of classification.
    pub rule: ClassRule,
    /// Maximum difference between a member and the best of its class, as a share.
    pub level: f64,
    /// The classes of the model, best first.
    pub classes: Vec<ValidatedClass>,
    /// The columns: the copy model first, then measured I/O, then hop distance and STREAM.
    pub columns: Vec<Column>,
    /// One entry for each column of measured I/O.
    pub verdicts: Vec<Verdict>,
}

/// A class of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ValidatedClass {
    /// The rank; 1 is best.
    pub rank: u32,
    /// The nodes.
    pub nodes: NodeSet,
}

/// The values of one method for the classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Column {
    /// The role of the column.
    pub role: Role,
    /// The values by node.
    pub view: View,
    /// The values by class, in the order of the classes; `None` for a class without a value.
    pub classes: Vec<Option<Spread>>,
}

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The copy model, which is validated.
    Model,
    /// Measured I/O, the reference.
    Measured,
    /// An alternative to the model: hop distance or STREAM.
    Baseline,
}

/// The values of the nodes of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The nodes with a value.
    pub nodes: NodeSet,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// Interval of the mean for errors in the same direction: means of the lower and of the upper
    /// ends. `None` for stated values.
    pub interval: Option<(f64, f64)>,
}

/// How the model and its baselines agree with one column of measured I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Name of the view of measured I/O.
    pub measured: String,
    /// The nodes that were not measured.
    pub not_measured: NodeSet,
    /// The nodes of these that are represented by a measured node of their class, as chosen by the
    /// measurement.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub represented: NodeSet,
    /// Number of pairs of classes that differ in I/O and have the model's order.
    pub classes_in_order: u32,
    /// Pairs of classes, by rank, that differ in I/O and have the opposite order.
    pub classes_reversed: Vec<(u32, u32)>,
    /// Number of pairs of classes that do not differ in I/O.
    pub classes_tied: u32,
    /// Agreement by node, the model first, then the baselines. The second view is always the
    /// measured one.
    pub agreements: Vec<Agreement>,
    /// Difference between the highest and lowest bandwidth, as a share of the highest.
    pub spread: f64,
    /// Whether the device is the bottleneck, not NUMA: the model has several classes, but all nodes
    /// get the same bandwidth within the level.
    pub device_bound: bool,
    /// Classes whose members' I/O differs by more than the level, beyond noise.
    pub splits: Vec<Split>,
    /// Adjacent classes with the same I/O within the level.
    pub merges: Vec<Merge>,
}

/// A class that should be split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Split {
    /// The rank of the class.
    pub rank: u32,
    /// The parts, best first.
    pub parts: Vec<NodeSet>,
}

/// Classes that should be merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Merge {
    /// The ranks of the classes, best first.
    pub ranks: Vec<u32>,
    /// Their measured nodes.
    pub nodes: NodeSet,
}

impl ValidatedDirection {
    /// Returns the column of a view.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.view.name == name)
    }
}

impl Verdict {
    /// Returns the rank agreement over pairs of classes that differ in I/O: 1 for the model's
    /// order, -1 for the opposite order. `None` if no pair differs.
    pub fn rank_agreement(&self) -> Option<f64> {
        let (agreeing, reversed) = (f64::from(self.classes_in_order), self.classes_reversed.len() as f64);
        (agreeing + reversed > 0.0).then(|| (agreeing - reversed) / (agreeing + reversed))
    }
}
