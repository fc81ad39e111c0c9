//! To change a machine: one change at a time, each with its inverse.

use serde::{Deserialize, Serialize};

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
