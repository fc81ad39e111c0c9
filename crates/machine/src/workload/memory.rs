//! Where memory lies.

use crate::set::NodeSet;
use serde::{Deserialize, Serialize};

/// Where a task's memory lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBinding {
    /// How strictly, and in which order.
    pub policy: MemoryPolicy,
    /// The nodes.
    pub nodes: NodeSet,
}

/// Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPolicy {
    /// These nodes and no others.
    Bind,
    /// These nodes, and others where they are full: the one nearest to the CPU first.
    Preferred,
    /// Page by page over these nodes.
    Interleave,
    /// The same by the kernel's weights.
    WeightedInterleave,
}

impl MemoryPolicy {
    /// The name for people and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Preferred => "preferred",
            Self::Interleave => "interleave",
            Self::WeightedInterleave => "weighted-interleave",
        }
    }
}
