//! Where running programs are, relative to the devices they use.

use crate::NEGLIGIBLE_LOSS;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Running programs, and which of them are remote from their devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// [`STATUS_SCHEMA`](crate::STATUS_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Time of observation in seconds since 1970.
    pub observed_at: u64,
    /// The programs, by process ID.
    pub processes: Vec<ProcessStatus>,
    /// Requested programs that could not be inspected, or only partially, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableProcess>,
}

/// A running program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProcessStatus {
    /// The process ID.
    pub pid: u32,
    /// The name of the program.
    pub name: String,
    /// The virtual machine that it runs; `None` if it is no hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Threads by the node of the CPU on which they run or last ran.
    pub threads_on: BTreeMap<NodeId, u32>,
    /// CPUs on which at least one thread may run.
    pub allowed: CpuSet,
    /// Bytes of private memory by node; `None` if the kernel denies access.
    pub bytes_on: Option<BTreeMap<NodeId, u64>>,
    /// The devices behind open files and connections.
    pub devices: Vec<DeviceUse>,
    /// How much of the program is near its devices; `None` without devices, or if their nodes are
    /// unknown.
    pub nearness: Option<Nearness>,
}

/// A device used by a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceUse {
    /// The name of the device.
    pub device: String,
    /// The node of the device.
    pub node: Option<NodeId>,
    /// Share of the open files and connections that lead to the device; `None` if the kernel does
    /// not promise how a RAID, a bond or another stack divides them.
    pub share: Option<f64>,
    /// The chain to the device, such as `/data/set1 -> xfs on /dev/sda1 -> sda`; the first of
    /// several.
    pub reached_via: String,
}

/// The shares of a program that are near its devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Nearness {
    /// Near nodes: the nodes of the devices.
    pub near: NodeSet,
    /// Share of threads that run on near nodes.
    pub threads: Option<f64>,
    /// Share of memory on near nodes.
    pub memory: Option<f64>,
    /// Share of its bandwidth that the most affected device is expected to lose because memory is
    /// not near, or threads if the memory is unknown; from 0 to 1, and `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_loss: Option<f64>,
}

/// A program that could not be inspected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct UnreadableProcess {
    /// The process ID.
    pub pid: u32,
    /// The reason.
    pub reason: String,
}

impl Nearness {
    /// Returns whether the devices are known to lose no bandwidth by what is remote.
    pub fn is_free(&self) -> bool {
        self.bandwidth_loss.is_some_and(|loss| loss < NEGLIGIBLE_LOSS)
    }

    /// Returns whether part of the threads or memory is remote from the devices.
    pub fn is_remote(&self) -> bool {
        let is_partial = |share: Option<f64>| share.is_some_and(|share| share < NEAR_SHARE);
        is_partial(self.threads) || is_partial(self.memory)
    }
}

/// Share from which a program counts as near, which tolerates stray pages of shared libraries.
const NEAR_SHARE: f64 = 0.95;
