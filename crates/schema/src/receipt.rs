//! What was changed on a machine, and how to take it back.

use crate::NotThatDocument;
use numaio_machine::control::Change;
use serde::{Deserialize, Serialize};

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
    pub applied: Vec<Applied>,
}

/// One change that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The change.
    pub change: Change,
    /// What undoes it.
    pub inverse: Change,
}

impl Receipt {
    /// Reads a receipt.
    pub fn from_json(text: &str) -> Result<Self, NotThatDocument> {
        crate::read(text, RECEIPT_SCHEMA)
    }
}
