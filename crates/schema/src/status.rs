//! Where running programs are, beside the devices that they use.

use crate::DocumentError;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`Status`].
pub const STATUS_SCHEMA: &str = "numaio/status/1";

/// Running programs, and which of them are remote to their devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`STATUS_SCHEMA`].
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Seconds since 1970 at which it was seen.
    pub seen_at: u64,
    /// The programs, by number.
    pub processes: Vec<ProcessStatus>,
    /// Programs that were asked for and could not be seen, or not wholly, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<UnreadableProcess>,
}

/// One running program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Threads by the node of the CPU on which they run or last ran.
    pub threads_on: BTreeMap<NodeId, u32>,
    /// CPUs on which at least one of its threads may run.
    pub allowed: CpuSet,
    /// Bytes of its own memory by node; none if the kernel does not let us see.
    pub bytes_on: Option<BTreeMap<NodeId, u64>>,
    /// Devices behind its open files and connections.
    pub devices: Vec<DeviceUse>,
    /// How much of it is where; none if its devices' nodes are not known, or it has none.
    pub nearness: Option<Nearness>,
}

/// A device that a program has open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Its name.
    pub device: String,
    /// Its node.
    pub node: Option<NodeId>,
    /// Share of the open files and connections that lead to it.
    pub share: f64,
    /// What leads to it, as in `/data/set1 -> xfs on /dev/sda1 -> sda`; the first of several.
    #[serde(rename = "by_way_of")]
    pub reached_via: String,
}

/// How near a program is to its devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nearness {
    /// Nodes that are near: the devices' own, and with a model those of their best class.
    pub near: NodeSet,
    /// Share of its threads that run there.
    pub threads: Option<f64>,
    /// Share of its memory that lies there.
    pub memory: Option<f64>,
}

/// A program that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableProcess {
    /// Its number.
    pub pid: u32,
    /// Why not.
    pub why: String,
}

impl Nearness {
    /// Whether part of its threads or memory is remote to its devices.
    pub fn is_remote(&self) -> bool {
        let part = |share: Option<f64>| share.is_some_and(|share| share < WHOLE);
        part(self.threads) || part(self.memory)
    }
}

/// From this share on everything counts as near: a stray page of a shared library is none.
const WHOLE: f64 = 0.95;

impl Status {
    /// Reads a document.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, STATUS_SCHEMA)
    }
}
