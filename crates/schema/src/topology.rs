//! A machine as it was seen.

use crate::NotThatDocument;
use numaio_machine::topology::Topology;
use serde::{Deserialize, Serialize};

/// Version of [`TopologyDocument`].
pub const TOPOLOGY_SCHEMA: &str = "numaio/topology/1";

/// A machine as it was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyDocument {
    /// [`TOPOLOGY_SCHEMA`].
    pub schema: String,
    /// The machine.
    #[serde(flatten)]
    pub topology: Topology,
}

impl TopologyDocument {
    /// The document of a machine.
    pub fn new(topology: Topology) -> Self {
        Self { schema: TOPOLOGY_SCHEMA.to_owned(), topology }
    }

    /// Reads a document.
    pub fn from_json(text: &str) -> Result<Self, NotThatDocument> {
        crate::read(text, TOPOLOGY_SCHEMA)
    }
}
