//! A program of the user, bound to CPUs and a memory node.

use super::common::Placement;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A program that runs once, bound to CPUs and to the memory of one node.
///
/// The binding of memory is strict: allocations fail when the node is full (`MPOL_BIND`,
/// Documentation/admin-guide/mm/numa_memory_policy.rst). Processes that the program starts inherit
/// both bindings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramWorkload {
    /// Name in PATH or path of the program, and its arguments.
    pub command: Vec<String>,
    /// CPUs on which its threads may run.
    #[serde(flatten)]
    pub placement: Placement,
    /// Node of its memory.
    pub memory: NodeId,
    /// Milliseconds after which it is killed.
    pub time_limit_ms: u32,
}

impl ProgramWorkload {
    /// Returns the name or path of the program; empty without a command.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }
}

impl fmt::Display for ProgramWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, placement, memory, .. } = self;
        write!(f, "{} on CPUs {}, memory on node {memory}", command.join(" "), placement.cpus)
    }
}
