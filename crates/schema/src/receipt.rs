//! The changes to a machine, and how to undo them.

use numaio_machine::control::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The changes applied to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Receipt {
    /// [`RECEIPT_SCHEMA`](crate::RECEIPT_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine; the receipt applies to no other.
    pub machine: String,
    /// The changes in the order of application, each with the change that undoes it.
    pub applied: Vec<AppliedChange>,
    /// Start time in seconds since 1970.
    pub created_at: u64,
    /// Boot ID at the time of application; no change survives a reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The devices concerned; empty for settings of the complete machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The handlers of each interrupt by its number, as /proc/interrupts named them at the time of
    /// the change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handlers: BTreeMap<u32, String>,
    /// Number of changes known to be applied; `None` after all were applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<usize>,
}

/// An applied change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct AppliedChange {
    /// The change.
    pub change: Change,
    /// The change that undoes it.
    pub inverse: Change,
}

impl Receipt {
    /// Creates a receipt of planned changes with their expected inverses, for this boot of the
    /// machine.
    pub fn planned(
        machine: &str,
        boot: Option<String>,
        created_at: u64,
        applied: Vec<AppliedChange>,
    ) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            machine: machine.to_owned(),
            applied,
            created_at,
            boot,
            devices: Vec::new(),
            handlers: BTreeMap::new(),
            progress: None,
        }
    }

    /// Returns whether any of its changes modifies the same setting as a change of the other
    /// receipt.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_set_by_other =
            |change: &Change| other.applied.iter().any(|it| it.change.is_same_setting(change));
        self.applied.iter().any(|applied| is_set_by_other(&applied.change))
    }
}
