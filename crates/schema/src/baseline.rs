//! One host now, compared with an earlier measurement of it.

use crate::FigureKey;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// One host now, compared with an earlier measurement of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BaselineComparison {
    /// [`BASELINE_SCHEMA`](crate::BASELINE_SCHEMA).
    pub schema: String,
    /// Version of numaio that compared.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Pairs of documents that were compared.
    pub documents: Vec<ComparedDocuments>,
    /// Changed bandwidth classes.
    pub classes: Vec<ClassChange>,
    /// Figures whose 95 % intervals do not overlap, worst first.
    pub figures: Vec<FigureChange>,
    /// Number of figures that both documents contain.
    pub compared: u32,
}

/// Two documents of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparedDocuments {
    /// The measured quantity: `copy model`, `STREAM`, `latency` or `I/O`.
    pub kind: String,
    /// Time of the earlier measurement, in seconds since 1970.
    pub before_at: u64,
    /// Time of the later measurement, in seconds since 1970.
    pub after_at: u64,
}

/// Changed bandwidth classes toward a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClassChange {
    /// The target.
    pub target: NodeId,
    /// The direction.
    pub direction: Direction,
    /// The earlier classes, best first.
    pub before: Vec<NodeSet>,
    /// The later classes, best first.
    pub after: Vec<NodeSet>,
}

/// A changed figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FigureChange {
    /// The quantity.
    #[serde(flatten)]
    pub key: FigureKey,
    /// The earlier value.
    pub before: f64,
    /// Its 95 % interval.
    pub before_interval: (f64, f64),
    /// The later value.
    pub after: f64,
    /// Its 95 % interval.
    pub after_interval: (f64, f64),
}

impl BaselineComparison {
    /// Returns whether a class or a figure changed.
    pub fn has_changes(&self) -> bool {
        !self.classes.is_empty() || !self.figures.is_empty()
    }
}

impl FigureChange {
    /// Returns the change as a share of the earlier value; negative is worse.
    pub fn gain(&self) -> f64 {
        let change = self.after / self.before - 1.0;
        if self.key.more_is_better {
            change
        } else {
            -change
        }
    }
}
