//! Figures of a program, bound to CPUs and a memory node.

use crate::{ClassRule, Provenance, Quantity, Reading, Rounds};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Placement;
use serde::{Deserialize, Serialize};

/// Figures of a program for pairs of CPUs and memory node (Braithwaite et al., 2012, section
/// 3.2.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SweepRecord {
    /// [`SWEEP_SCHEMA`](crate::SWEEP_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: SweepMethod,
    /// The measurements.
    pub cells: Vec<SweepCell>,
    /// Classes of all cells (Braithwaite et al., 2012, Table 4).
    pub classes: SweepClasses,
}

/// The method of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SweepMethod {
    /// Name of the sweep for views and tables; by default that of the program.
    pub name: String,
    /// Builds of the program with their arguments; a cell has the figure of the best one.
    pub builds: Vec<Vec<String>>,
    /// Where the figure comes from.
    pub figure: FigureSource,
    /// Quantity of the figures: bytes per second, a score or a cost.
    pub quantity: Quantity,
    /// Unit of scores and costs for displays; empty if unknown.
    #[serde(default)]
    pub unit: String,
    /// The CPUs of a cell.
    pub scope: SweepScope,
    /// Time limit of one run, in seconds.
    pub run_limit_s: f64,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// The source of a program's figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum FigureSource {
    /// The only group of a regular expression that matches the output once.
    Regex {
        /// The expression.
        pattern: String,
    },
    /// A value in the JSON that the program prints.
    Json {
        /// JSON Pointer (RFC 6901), such as `/jobs/0/read/bw`.
        pointer: String,
    },
    /// The time from start to exit, in seconds.
    WallTime,
}

/// The CPUs to which the program is bound in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SweepScope {
    /// All CPUs of one node.
    Pairs,
    /// One core of a node.
    Cores,
}

/// The figures on CPUs of one node with memory of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SweepCell {
    /// The node of the CPUs.
    pub cpu_node: NodeId,
    /// The node of the memory.
    pub memory_node: NodeId,
    /// The CPUs; one with [`SweepScope::Cores`].
    #[serde(flatten)]
    pub placement: Placement,
    /// Whether both nodes are the same, or in one package.
    pub same_package: bool,
    /// Index of the best build; the first one if no build has a figure.
    pub build: u32,
    /// Figure of the best build, in bytes per second or the unit of the method.
    pub figure: Reading,
    /// Figures of the other builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_builds: Vec<BuildFigure>,
}

/// The figure of a build that is not the best one of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BuildFigure {
    /// Index of the build.
    pub build: u32,
    /// Its figure, in the unit of the cell's.
    pub figure: Reading,
}

/// Classes of the cells of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SweepClasses {
    /// The rule of classification.
    pub rule: ClassRule,
    /// Maximum difference between a member and the best of its class, as a share.
    pub level: f64,
    /// The classes, best first.
    pub classes: Vec<SweepClass>,
}

/// A class of cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SweepClass {
    /// The rank; 1 is best.
    pub rank: u32,
    /// Indexes of its cells.
    pub cells: Vec<u32>,
    /// Lowest figure.
    pub min: f64,
    /// Highest figure.
    pub max: f64,
    /// Mean of the figures.
    pub mean: f64,
}

impl SweepRecord {
    /// Returns the rank of the class of a cell, given by its index.
    pub fn rank(&self, cell: usize) -> Option<u32> {
        let is_member = |class: &&SweepClass| class.cells.iter().any(|member| *member as usize == cell);
        self.classes.classes.iter().find(is_member).map(|class| class.rank)
    }
}
