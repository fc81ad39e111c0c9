//! What on a machine costs I/O bandwidth, and what mends it.

use crate::{DocumentError, MachineSource};
use numaio_machine::checkup::Fix;
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Version of [`Diagnosis`].
pub const DIAGNOSIS_SCHEMA: &str = "numaio/diagnosis/1";

/// What on a machine costs I/O bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`DIAGNOSIS_SCHEMA`].
    pub schema: String,
    /// Version of numaio that looked.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Whether it was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// Seconds since 1970 at which it was seen; none of a copied tree of files, which does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<u64>,
    /// Names of the devices that were asked for; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// What was found, the dearest first.
    pub findings: Vec<DiagnosedFinding>,
    /// What could not be looked at, and why, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiagnosedFinding {
    /// What was seen, and where.
    #[serde(flatten)]
    pub finding: Finding,
    /// What it costs.
    pub cost: Cost,
    /// What takes it away.
    pub mend: Fix,
}

/// What something costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Cost {
    /// A share of a bandwidth that was measured, or that a link's registers tell.
    Known {
        /// The node whose devices lose it; none of a link.
        target: Option<NodeId>,
        /// What is lost, the greatest first; not empty.
        losses: Vec<Loss>,
        /// From what it is known, in words.
        basis: String,
    },
    /// It is not known.
    Unknown {
        /// How to find out, in words.
        find_out: String,
    },
    /// Nothing by itself.
    Nothing,
}

/// A share of a bandwidth that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// In which direction; none for both alike.
    pub direction: Option<Direction>,
    /// At least this share, from 0 to 1.
    pub least: f64,
    /// At most this share.
    pub most: f64,
}

impl Cost {
    /// The most that may be lost, as a share; none if it is not known.
    pub fn most(&self) -> Option<f64> {
        match self {
            Self::Known { losses, .. } => losses.iter().map(|loss| loss.most).max_by(f64::total_cmp),
            Self::Unknown { .. } => None,
            Self::Nothing => Some(0.0),
        }
    }
}

impl Diagnosis {
    /// Whether something was found that costs bandwidth, or probably does: more than notes.
    pub fn has_faults(&self) -> bool {
        self.findings.iter().any(|found| found.finding.severity > Severity::Note)
    }

    /// Reads a diagnosis.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, DIAGNOSIS_SCHEMA)
    }
}
