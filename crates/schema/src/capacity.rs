//! Capacity that a daemon lends to a transfer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The capacity that a daemon lends to a transfer at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LentCapacity {
    /// The state of the transfer.
    pub state: CapacityState,
    /// Its share of the devices in bytes/s; `None` if it has none yet, or nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Whether it may not exceed the rate, because others share the devices or the configuration
    /// limits them.
    #[serde(default)]
    pub is_limited: bool,
    /// Threads of its storage devices; `None` if it has none, or no device is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether it may not use more threads, because those of its storage devices are fixed.
    #[serde(default)]
    pub has_fixed_threads: bool,
    /// Position in the queue, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Why it waits; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Seconds until it probably starts, if that can be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_in: Option<u64>,
}

impl LentCapacity {
    /// Returns the maximum number of reads and writes in progress; `None` without a limit.
    pub fn operation_limit(&self) -> Option<u32> {
        self.threads.filter(|_| self.has_fixed_threads)
    }

    /// Why a transfer waits that has no threads on the other host yet.
    pub const AWAITS_PEER: &str = "the other host has no free threads for it yet";
}

/// The state of a transfer at a daemon (Tan Li's dissertation, 6.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CapacityState {
    /// In the queue.
    #[default]
    Waiting,
    /// Has threads, and agrees on a rate with the other host.
    Active,
    /// Gave back its threads, and is in the queue again.
    Suspended,
    /// Transfers.
    Transferring,
}

impl CapacityState {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Transferring => "transferring",
        }
    }

    /// Returns whether the transfer has threads.
    pub fn has_threads(self) -> bool {
        matches!(self, Self::Active | Self::Transferring)
    }
}

impl fmt::Display for CapacityState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A transfer in the queue of a daemon, or with threads of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct QueuedTransfer {
    /// The user: a user of the daemon, or a user of its host.
    pub user: String,
    /// The subject of the transfer: a root of the daemon, or the process on its host.
    pub subject: String,
    /// Devices that it uses, each with its direction.
    pub devices: Vec<String>,
    /// Bytes so far.
    pub bytes: u64,
    /// Its slot or its place in the queue.
    #[serde(flatten)]
    pub capacity: LentCapacity,
}
