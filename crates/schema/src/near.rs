//! The devices and nodes of handles.

use crate::MachineExpectation;
use numaio_machine::near::Resolved;
use serde::{Deserialize, Serialize};

/// Handles resolved to devices and nodes, as `numaio near --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NearDocument {
    /// [`NEAR_SCHEMA`](crate::NEAR_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// The handles, in the order of the command line.
    pub handles: Vec<Resolved>,
    /// What the devices of the handles can transfer with buffers on each node.
    #[serde(default)]
    pub expected: MachineExpectation,
}

impl NearDocument {
    /// Creates the document of a machine's handles.
    pub fn new(machine: String, handles: Vec<Resolved>, expected: MachineExpectation) -> Self {
        Self { schema: Self::SCHEMA.to_owned(), machine, handles, expected }
    }
}
