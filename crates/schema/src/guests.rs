//! Virtual machines on a host: where they run, and which devices they use.

use crate::DiagnosedFinding;
use numaio_machine::findings::Severity;
use numaio_machine::guests::{GivenTopology, GuestConfiguration, GuestDevice, GuestMemory, GuestThread};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The guests of a host, and the host itself as a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestsDocument {
    /// [`GUESTS_SCHEMA`](crate::GUESTS_SCHEMA).
    pub schema: String,
    /// Version of numaio that wrote it.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Time of observation in seconds since 1970; `None` for a copied tree of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<u64>,
    /// The topology that this machine was given as a guest; `None` if it is not a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenTopology>,
    /// The guests, by process id.
    pub guests: Vec<GuestStatus>,
}

/// A running guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestStatus {
    /// Process id of its hypervisor.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub configuration: GuestConfiguration,
    /// Its threads.
    pub threads: Vec<GuestThread>,
    /// Virtual CPUs by the node on which they run or last ran.
    pub vcpus_on: BTreeMap<NodeId, u32>,
    /// Its memory; `None` without permission.
    pub memory: Option<GuestMemory>,
    /// Bytes of its memory by node; `None` without permission.
    pub bytes_on: Option<BTreeMap<NodeId, u64>>,
    /// Whether the kernel cannot move its memory, because a device of the host writes into it.
    pub pinned: bool,
    /// Devices of the host that it uses.
    pub devices: Vec<GuestDevice>,
    /// The remote parts, most costly first.
    pub findings: Vec<DiagnosedFinding>,
}

impl GuestStatus {
    /// Returns whether a finding costs bandwidth, or probably does; notes do not count.
    pub fn has_faults(&self) -> bool {
        self.findings.iter().any(|found| found.finding.severity > Severity::Note)
    }
}
