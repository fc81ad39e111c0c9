//! What was changed on a machine, and how to take it back.

use crate::DocumentError;
use numaio_machine::control::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`Receipt`].
pub const RECEIPT_SCHEMA: &str = "numaio/receipt/1";

/// Changes that were applied to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`RECEIPT_SCHEMA`].
    pub schema: String,
    /// Fingerprint of the machine; the receipt is good for no other.
    pub machine: String,
    /// Changes in the order in which they were applied, each with the change that undoes it.
    pub applied: Vec<AppliedChange>,
    /// Seconds since 1970 at which it began; 0 in receipts of before this was kept.
    #[serde(default)]
    pub made_at: u64,
    /// The start of the kernel in which it was applied: none of these changes outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Devices it is about; empty for settings of the whole machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Whose each interrupt was when it was changed, by its number: handlers as /proc/interrupts names them. Empty in receipts of before this
    /// was kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handlers: BTreeMap<u32, String>,
    /// How many of the changes were made for certain; none when it is over, and all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub underway: Option<usize>,
}

/// One change that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedChange {
    /// The change.
    pub change: Change,
    /// What undoes it.
    pub inverse: Change,
}

impl Receipt {
    /// A receipt of changes to be made on a machine in this start of its kernel; inverses as they are foreseen.
    pub fn planned(machine: &str, boot: Option<String>, made_at: u64, applied: Vec<AppliedChange>) -> Self {
        Self {
            schema: RECEIPT_SCHEMA.to_owned(),
            machine: machine.to_owned(),
            applied,
            made_at,
            boot,
            devices: Vec::new(),
            handlers: BTreeMap::new(),
            underway: None,
        }
    }

    /// Whether any of its changes sets what one of the other's does.
    pub fn overlaps(&self, other: &Self) -> bool {
        let sets = |change: &Change| other.applied.iter().any(|it| it.change.is_same_setting(change));
        self.applied.iter().any(|applied| sets(&applied.change))
    }

    /// Reads a receipt.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, RECEIPT_SCHEMA)
    }
}
