//! Problems that cost I/O bandwidth on a machine, and their fixes.

use crate::{MachineSource, NEGLIGIBLE_LOSS};
use numaio_machine::checkup::Fix;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Problems that cost I/O bandwidth on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// [`DIAGNOSIS_SCHEMA`](crate::DIAGNOSIS_SCHEMA).
    pub schema: String,
    /// Version of numaio that diagnosed.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Whether the source was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// Time of discovery in seconds since 1970; `None` for a copied tree of files, which does not
    /// record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<u64>,
    /// Names of the requested devices; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Where the devices are, and which nodes to use for them, in one line; `None` if it does not
    /// matter, or for some devices only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The findings, most costly first.
    pub findings: Vec<DiagnosedFinding>,
    /// Checks that were not possible, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
}

/// A finding with its cost and fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DiagnosedFinding {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// The cost.
    pub cost: Cost,
    /// The fix and its reversal.
    pub fix: Fix,
}

/// The cost of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Cost {
    /// A share of a bandwidth that was measured, or reported by the registers of a link.
    Known {
        /// The node whose devices lose bandwidth; `None` for a link.
        target: Option<NodeId>,
        /// The losses, greatest first; not empty.
        losses: Vec<Loss>,
        /// The source of the numbers, as text.
        basis: String,
    },
    /// The cost is not known.
    Unknown {
        /// How to measure the cost, as text.
        measure: String,
    },
    /// No cost by itself.
    Nothing,
}

/// A lost share of a bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// The direction; `None` if both are equal.
    pub direction: Option<Direction>,
    /// Lower bound of the share, from 0 to 1.
    pub low: f64,
    /// Upper bound of the share.
    pub high: f64,
}

impl Cost {
    /// Returns the maximum loss as a share; `None` if it is unknown.
    pub fn most(&self) -> Option<f64> {
        match self {
            Self::Known { losses, .. } => losses.iter().map(|loss| loss.high).max_by(f64::total_cmp),
            Self::Unknown { .. } => None,
            Self::Nothing => Some(0.0),
        }
    }

    /// Returns whether the losses are known and too small to measure.
    pub fn is_negligible(&self) -> bool {
        self.most().is_some_and(|most| most < NEGLIGIBLE_LOSS)
    }
}

impl Diagnosis {
    /// Returns whether a finding costs bandwidth, or probably does; notes do not count.
    pub fn has_faults(&self) -> bool {
        self.findings.iter().any(|found| found.finding.severity > Severity::Note)
    }
}
