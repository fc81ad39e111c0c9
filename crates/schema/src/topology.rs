//! The topology of a machine.

use crate::MachineExpectation;
use numaio_machine::devices::DeviceMatrix;
use numaio_machine::topology::Topology;
use serde::{Deserialize, Serialize};

/// The topology of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopologyDocument {
    /// [`TOPOLOGY_SCHEMA`](crate::TOPOLOGY_SCHEMA).
    pub schema: String,
    /// Time of discovery in seconds since 1970; `None` for a copied tree of files, which does not
    /// record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<u64>,
    /// The topology.
    #[serde(flatten)]
    pub topology: Topology,
    /// The shared parts of each two devices' paths, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_matrix: Option<DeviceMatrix>,
    /// What the devices can transfer with buffers on each node; `None` where only the machine is
    /// described.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<MachineExpectation>,
}

impl TopologyDocument {
    /// Creates a document without a time of discovery.
    pub fn new(topology: Topology) -> Self {
        Self::with_time(topology, None)
    }

    /// Creates a document with a time of discovery, in seconds since 1970.
    pub fn with_time(topology: Topology, observed_at: Option<u64>) -> Self {
        Self { schema: Self::SCHEMA.to_owned(), observed_at, topology, device_matrix: None, expected: None }
    }
}
