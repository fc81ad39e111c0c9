//! The I/O bandwidth model of a machine: classes of nodes by target and direction.

use crate::Record;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bandwidth classes of a machine, with the underlying measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Model {
    /// [`MODEL_SCHEMA`](crate::MODEL_SCHEMA).
    pub schema: String,
    /// One entry for each target, by node.
    pub targets: Vec<TargetModel>,
    /// The measurements.
    pub record: Record,
}

/// The model of one target node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TargetModel {
    /// The target node.
    pub target: NodeId,
    /// Names of the attached devices.
    pub devices: Vec<String>,
    /// The other nodes of its package.
    pub neighbors: NodeSet,
    /// One entry for each measured direction.
    pub directions: Vec<DirectionModel>,
}

/// The model of one target and direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DirectionModel {
    /// Device write or device read.
    pub direction: Direction,
    /// The rule of classification.
    pub rule: ClassRule,
    /// Maximum difference between a member and the best of its class, as a share (rules `measured`
    /// and `paper`).
    pub level: f64,
    /// The classes, best first. Rule `paper` lists the target and its neighbors first, regardless
    /// of their bandwidth.
    pub classes: Vec<Class>,
    /// The bandwidth of each node, by node.
    pub nodes: Vec<NodeBandwidth>,
    /// Nodes with memory that were not measured.
    pub missing: NodeSet,
}

/// A rule of classification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ClassRule {
    /// The fewest groups whose members differ from the best by at most the level, beyond noise;
    /// then the least sum of squares.
    #[default]
    Measured,
    /// Class 1 is the target and its neighbors; `Measured` classifies the rest (Li et al., ICPP
    /// 2013).
    Paper,
    /// Exact one-dimensional k-means, with K from the ratio of mean radius to mean distance of
    /// centers (Braithwaite et al., 2012).
    Kmeans,
}

/// A bandwidth class of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Class {
    /// The rank; 1 is best.
    pub rank: u32,
    /// The nodes.
    pub nodes: NodeSet,
    /// Lowest bandwidth of a member.
    pub min_bytes_copied_per_s: f64,
    /// Highest bandwidth of a member.
    pub max_bytes_copied_per_s: f64,
    /// Mean bandwidth of the members.
    pub mean_bytes_copied_per_s: f64,
}

/// The bandwidth of a node toward a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeBandwidth {
    /// The node.
    pub node: NodeId,
    /// The median.
    pub bytes_copied_per_s: f64,
    /// The 95 % interval of the median.
    pub interval_bytes_copied_per_s: (f64, f64),
    /// Bandwidth NUMA factor: local over this bandwidth.
    pub numa_factor: Option<f64>,
    /// Whether the cell settled within the precision.
    pub settled: bool,
    /// The levels of a bimodal cell; empty otherwise.
    pub modes_bytes_copied_per_s: Vec<f64>,
    /// The share of values at each of these levels, from 0 to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mode_shares: Vec<f64>,
}

impl ClassRule {
    /// All rules, default first.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Paper, Self::Kmeans];

    /// Returns the name in options and documents.
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
            .ok_or_else(|| "expected measured, paper or kmeans".to_owned())
    }
}
