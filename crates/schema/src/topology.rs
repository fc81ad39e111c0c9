//! A machine as it was seen.

use crate::DocumentError;
use numaio_machine::topology::Topology;
use serde::{Deserialize, Serialize};

/// Version of [`TopologyDocument`].
pub const TOPOLOGY_SCHEMA: &str = "numaio/topology/1";

/// A machine as it was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyDocument {
    /// [`TOPOLOGY_SCHEMA`].
    pub schema: String,
    /// Seconds since 1970 at which it was seen; none of a copied tree of files, which does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<u64>,
    /// The machine.
    #[serde(flatten)]
    pub topology: Topology,
}

impl TopologyDocument {
    /// The document of a machine seen at no known time.
    pub fn new(topology: Topology) -> Self {
        Self::with_time(topology, None)
    }

    /// The document of a machine seen at a time, in seconds since 1970.
    pub fn with_time(topology: Topology, seen_at: Option<u64>) -> Self {
        Self { schema: TOPOLOGY_SCHEMA.to_owned(), seen_at, topology }
    }

    /// Reads a document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, TOPOLOGY_SCHEMA)
    }
}
