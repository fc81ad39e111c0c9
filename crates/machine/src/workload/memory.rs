//! Memory policy of a task.

use crate::set::NodeSet;
use serde::{Deserialize, Serialize};

/// A memory policy and its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MemoryBinding {
    /// The policy.
    pub policy: MemoryPolicy,
    /// The nodes.
    pub nodes: NodeSet,
}

/// Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPolicy {
    /// Only these nodes.
    Bind,
    /// These nodes, or other nodes if they are full, nearest to the CPU first.
    Preferred,
    /// Alternate pages over these nodes.
    Interleave,
    /// Alternate pages by the kernel's weights.
    WeightedInterleave,
}

impl MemoryPolicy {
    /// Returns the name in displays and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Preferred => "preferred",
            Self::Interleave => "interleave",
            Self::WeightedInterleave => "weighted-interleave",
        }
    }
}
