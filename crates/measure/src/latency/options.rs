//! Options of a latency campaign.

use crate::rounds::Rule;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Pages;

/// Options of a latency campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyOptions {
    /// Limits pairs to those with one of these nodes, its row and its column; every pair if empty.
    pub around: NodeSet,
    /// Nodes whose paths are also measured under load.
    pub loaded: NodeSet,
    /// Distance between elements of the chain in bytes.
    pub stride_bytes: u32,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Stopping rule. With loaded paths, idle latency takes at most half of the time limit.
    pub rule: Rule,
}

impl Default for LatencyOptions {
    fn default() -> Self {
        Self {
            around: NodeSet::new(),
            loaded: NodeSet::new(),
            stride_bytes: 256,
            pages: Pages::Transparent,
            rule: Rule::default(),
        }
    }
}
