//! The report of one host of a fleet.

use crate::read::{read, DocumentError};
use crate::{Diagnosis, TopologyDocument};
use numaio_machine::conditions::Conditions;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The report of one host of a fleet: its description, and the measurements of a command on it.
///
/// A host writes exactly one, complete or not at all. `D` holds a document of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "HostReport"))]
pub struct HostReport<D = serde_json::Value> {
    /// [`HOST_REPORT_SCHEMA`](crate::HOST_REPORT_SCHEMA).
    pub schema: String,
    /// Version of numaio that measured.
    pub numaio: String,
    /// The name that the fleet uses: Slurm's node name, or ssh's destination.
    pub host: String,
    /// Application-specific hash of the host's machine-id (machine-id(5)), which distinguishes two
    /// hosts of one name; `None` if the host has no machine-id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The fleet run; empty outside of one.
    #[serde(default)]
    pub run: String,
    /// Start of the command in seconds since 1970, by the host's clock.
    pub started_at: u64,
    /// End of the command in seconds since 1970, by the host's clock.
    pub finished_at: u64,
    /// The arguments of numaio that measured; empty if nothing was measured.
    pub command: Vec<String>,
    /// The topology with its devices and findings.
    pub topology: TopologyDocument,
    /// Settings and load before the command.
    pub conditions: Conditions,
    /// The findings of `numaio doctor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// The documents that the command printed.
    pub documents: Vec<D>,
    /// Why the command failed; its complete documents are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl HostReport<Box<RawValue>> {
    /// Reads a report, and leaves the texts of its documents as they are: they are most of it, and
    /// are read one by one.
    ///
    /// # Errors
    /// As [`HostReport::from_json`].
    pub fn with_document_texts(text: &str) -> Result<Self, DocumentError> {
        read(text, <HostReport>::SCHEMA)
    }
}
