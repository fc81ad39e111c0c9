//! The I/O bandwidth model of a machine: classes of nodes per target and direction.

use crate::{DocumentError, Record};
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Version of [`Model`].
pub const MODEL_SCHEMA: &str = "numaio/model/1";

/// Bandwidth classes of a machine, with the measurements they come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// [`MODEL_SCHEMA`].
    pub schema: String,
    /// One for each target, by node.
    pub targets: Vec<TargetModel>,
    /// The measurements.
    pub record: Record,
}

/// The model of one target node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetModel {
    /// The target.
    pub target: NodeId,
    /// Names of devices attached to it.
    pub devices: Vec<String>,
    /// Other nodes of its package.
    #[serde(rename = "neighbours")]
    pub neighbors: NodeSet,
    /// One for each direction measured.
    pub directions: Vec<DirectionModel>,
}

/// The model of one target and direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionModel {
    /// Device write or device read.
    pub direction: Direction,
    /// How nodes were classed.
    pub rule: ClassRule,
    /// Share of a class's best by which its members may lie below it (rules `measured` and `paper`).
    pub level: f64,
    /// Classes, best first (rule `paper`: the target and its neighbours first, whatever they measure).
    pub classes: Vec<Class>,
    /// Bandwidth of each node, by node.
    pub nodes: Vec<NodeBandwidth>,
    /// Nodes with memory that have no figure.
    pub missing: NodeSet,
}

/// How nodes are put into classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassRule {
    /// The fewest groups in which no member is more than the level below the group's best, beyond noise;
    /// among those the least sum of squares.
    #[default]
    Measured,
    /// Class 1 is the target and its neighbours, the rest by `Measured` (Li et al., ICPP 2013).
    Paper,
    /// Exact one-dimensional k-means, K by the ratio of mean radius to mean distance between centres
    /// (Braithwaite et al., 2012).
    Kmeans,
}

/// Nodes of one bandwidth level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// 1 is best.
    pub rank: u32,
    /// Its nodes.
    pub nodes: NodeSet,
    /// Least bandwidth of a member.
    pub min_bytes_copied_per_s: f64,
    /// Greatest bandwidth of a member.
    pub max_bytes_copied_per_s: f64,
    /// Mean bandwidth of its members.
    pub mean_bytes_copied_per_s: f64,
}

/// One node's bandwidth toward a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeBandwidth {
    /// The node.
    pub node: NodeId,
    /// Median.
    pub bytes_copied_per_s: f64,
    /// 95 % interval of the median.
    pub interval_bytes_copied_per_s: (f64, f64),
    /// Bandwidth NUMA factor: local over this.
    pub numa_factor: Option<f64>,
    /// Whether the cell settled within the precision.
    pub settled: bool,
    /// Levels at which a bimodal cell was seen; empty otherwise.
    pub modes_bytes_copied_per_s: Vec<f64>,
    /// Share of the values at each of those levels, from 0 to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mode_shares: Vec<f64>,
}

impl Model {
    /// Reads a model.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, MODEL_SCHEMA)
    }
}

impl ClassRule {
    /// All rules, the default first.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Paper, Self::Kmeans];

    /// The name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Paper => "paper",
            Self::Kmeans => "kmeans",
        }
    }
}

impl fmt::Display for ClassRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ClassRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.name() == text)
            .ok_or_else(|| format!("{text:?} is no rule for classes; there are measured, paper and kmeans"))
    }
}
