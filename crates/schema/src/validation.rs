//! The copy model beside measured I/O: Tables IV and V of Li et al. (ICPP 2013) for this machine.

use crate::{Agreement, ClassRule, DocumentError, View, Warning};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Version of [`Validation`].
pub const VALIDATION_SCHEMA: &str = "numaio/validation/1";

/// How well the classes of a target's model foretell the bandwidth of its devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// [`VALIDATION_SCHEMA`].
    pub schema: String,
    /// Version of numaio that validated.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Seconds since 1970 of the newest measurement among the views.
    pub measured_at: u64,
    /// The target.
    pub target: NodeId,
    /// Names of the devices that were measured.
    pub devices: Vec<String>,
    /// One for each direction of the model in which I/O was measured.
    pub directions: Vec<ValidatedDirection>,
    /// What is missing or doubtful.
    pub warnings: Vec<Warning>,
}

/// One direction of a target: a table of the paper, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidatedDirection {
    /// Device write or device read.
    pub direction: Direction,
    /// How the model's nodes were classed.
    pub rule: ClassRule,
    /// Share of a class's best by which its members may lie below it.
    pub level: f64,
    /// Classes of the model, best first.
    pub classes: Vec<ValidatedClass>,
    /// What was measured or stated: the copy model first, then measured I/O, then hop distance and STREAM.
    pub columns: Vec<Column>,
    /// One for each column of measured I/O.
    pub verdicts: Vec<Verdict>,
}

/// A class of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatedClass {
    /// 1 is best.
    pub rank: u32,
    /// Its nodes.
    pub nodes: NodeSet,
}

/// What one method says of the classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What it is among the columns.
    pub role: Role,
    /// Its values by node.
    pub view: View,
    /// Its values by class, in the order of the classes; none of a class without a value.
    pub classes: Vec<Option<Spread>>,
}

/// What a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The copy model, which is validated.
    Model,
    /// Measured I/O, against which everything is validated.
    Measured,
    /// What else could have been believed: hop distance, STREAM.
    #[serde(rename = "rival")]
    Baseline,
}

/// Values of the nodes of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Nodes that have a value.
    pub nodes: NodeSet,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Mean of the values.
    pub mean: f64,
    /// Means of the lower and of the upper ends of their intervals: the interval of the mean, if all of them err the
    /// same way. None of what is stated.
    pub interval: Option<(f64, f64)>,
}

/// How the model and its rivals did against one column of measured I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the view of measured I/O.
    pub measured: String,
    /// Nodes that were not measured.
    pub not_measured: NodeSet,
    /// Those of them for which a node of their class was measured, by the measurement's own method.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub represented: NodeSet,
    /// Pairs of classes that the I/O tells apart and puts into the model's order.
    pub classes_in_order: u32,
    /// Pairs of classes that it tells apart and puts into the opposite order, by rank.
    pub classes_reversed: Vec<(u32, u32)>,
    /// Pairs of classes that it cannot tell apart.
    pub classes_tied: u32,
    /// Node by node, the model first, then its rivals: the first view of each is theirs, the second the measured one.
    pub agreements: Vec<Agreement>,
    /// How far the least bandwidth lies below the greatest, as a share.
    pub spread: f64,
    /// Whether the device is the bottleneck and not NUMA: the model has several classes, and all nodes get the same
    /// within the level.
    pub device_bound: bool,
    /// Classes whose members' I/O differ by more than the level, beyond noise.
    pub splits: Vec<Split>,
    /// Neighbouring classes whose I/O is the same within the level.
    pub merges: Vec<Merge>,
}

/// A class that should be several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The class.
    pub rank: u32,
    /// What it should be, best first.
    pub parts: Vec<NodeSet>,
}

/// Classes that should be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// The classes, best first.
    pub ranks: Vec<u32>,
    /// Their nodes that were measured.
    pub nodes: NodeSet,
}

impl Validation {
    /// Reads a validation.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, VALIDATION_SCHEMA)
    }
}

impl ValidatedDirection {
    /// The column of a view.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.view.name == name)
    }
}

impl Verdict {
    /// Of the pairs of classes that the I/O tells apart, those in the model's order less those reversed, as a share:
    /// 1 is full agreement, -1 the opposite order. None if it tells none apart.
    pub fn rank_agreement(&self) -> Option<f64> {
        let (alike, reversed) = (f64::from(self.classes_in_order), self.classes_reversed.len() as f64);
        (alike + reversed > 0.0).then(|| (alike - reversed) / (alike + reversed))
    }
}
