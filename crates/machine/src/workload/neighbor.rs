//! Load beside a workload.

use super::common::Placement;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A load beside a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "load", rename_all = "lowercase")]
pub enum NeighborLoad {
    /// Threads that run STREAM copy with ordinary stores (McCalpin, 1995).
    Stream(StreamLoad),
    /// A command of the user's shell. It counts as running shortly after its start.
    Command {
        /// The command, for `sh -c`.
        command: String,
    },
}

/// STREAM threads, each with its own two arrays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamLoad {
    /// CPUs of the threads, used in turn: several threads share a CPU if there are more threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// Number of threads.
    pub threads: u32,
    /// Node of the arrays.
    pub memory: NodeId,
    /// Size of each array in bytes.
    pub bytes_per_array: u64,
}

impl StreamLoad {
    /// Arrays of a thread: one is read, one is written.
    pub const ARRAYS: u32 = 2;
}

impl fmt::Display for NeighborLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(StreamLoad { placement, threads, memory, .. }) => {
                write!(f, "{threads} STREAM threads on CPUs {}, memory on node {memory}", placement.cpus)
            }
            Self::Command { command } => write!(f, "'{command}'"),
        }
    }
}
