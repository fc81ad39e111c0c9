//! The origin of measurements.

use crate::MeasuredLoad;
use numaio_machine::conditions::Conditions;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};

/// The origin of measurements, common to all records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// Version of numaio that measured.
    pub numaio: String,
    /// Start of the campaign in seconds since 1970; for a tape, the time of recording.
    pub measured_at: u64,
    /// The machine.
    pub machine: Identity,
    /// Whether the source was this machine, a tape or a simulation.
    pub source: MachineSource,
    /// Conditions before the first and after the last measurement.
    pub conditions: (Conditions, Conditions),
    /// Reasons to doubt the values.
    pub warnings: Vec<Warning>,
    /// Whether every requested value settled within the precision. False after an interrupt, a time
    /// limit or a failed measurement.
    pub complete: bool,
    /// Load that ran beside every visit; empty for an idle machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<MeasuredLoad>,
}

/// Rule of the warning about measurements under a CPU quota.
pub const THROTTLED: &str = "cpu-throttled";

impl Provenance {
    /// Returns whether placements may rest on the measurements: not if a CPU quota stopped them,
    /// because the values are those of the quota, not of the machine; nor under a load, which will
    /// not be there.
    pub fn is_fit_for_placement(&self) -> bool {
        self.load.is_empty() && self.warnings.iter().all(|warning| warning.rule != THROTTLED)
    }

    /// Returns the load as in the option `--load`; `None` for an idle machine.
    pub fn load_label(&self) -> Option<String> {
        let loads: Vec<String> = self.load.iter().map(|load| load.load.to_string()).collect();
        (!loads.is_empty()).then(|| loads.join(","))
    }
}

/// The source of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum MachineSource {
    /// This machine.
    Live,
    /// A tape.
    Tape {
        /// The name of the tape.
        name: String,
        /// The note on the tape, such as that the machine was emulated.
        note: String,
    },
    /// A simulation.
    Simulated,
}

/// A reason to doubt measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// A stable name, such as `other-load`.
    pub rule: String,
    /// A sentence for users, with the cause if it is known.
    pub message: String,
}
