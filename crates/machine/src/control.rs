//! To change a machine: one change at a time, each with its inverse.

use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine that can be changed.
pub trait Control {
    /// Applies one change and gives back the change that undoes it.
    fn apply(&self, change: &Change) -> Result<Change, ControlError>;
}

/// One change of a machine's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Automatic NUMA balancing (`Documentation/admin-guide/sysctl/kernel.rst`, `numa_balancing`).
    NumaBalancing {
        /// The value of the setting: 0 off, 1 balancing, 2 memory tiering, 3 both.
        mode: u32,
    },
    /// Weight of a node in weighted interleave
    /// (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).
    InterleaveWeight {
        /// The node.
        node: NodeId,
        /// Pages in a row, from 1 to 255.
        weight: u32,
    },
    /// Whether the kernel sets these weights by itself, from firmware's bandwidths (Linux 6.16).
    AutomaticInterleave {
        /// Whether it does.
        on: bool,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumaBalancing { mode } => write!(f, "automatic NUMA balancing to {mode}"),
            Self::InterleaveWeight { node, weight } => {
                write!(f, "interleave weight of node {node} to {weight}")
            }
            Self::AutomaticInterleave { on: true } => f.write_str("automatic interleave weights on"),
            Self::AutomaticInterleave { on: false } => f.write_str("automatic interleave weights off"),
        }
    }
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// A recorded machine cannot be changed.
    #[error("a recorded machine cannot be changed")]
    Frozen,
    /// The kernel refused.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The kernel's words.
        why: String,
    },
}
