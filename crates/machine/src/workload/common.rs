//! Common parts of workloads: flow, threads, pages and sampling.

use crate::ids::NodeId;
use crate::set::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A data flow from the memory of one node to the memory of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Node whose memory is read.
    pub source: NodeId,
    /// Node whose memory is written.
    pub sink: NodeId,
}

impl Flow {
    /// Returns the flow that represents I/O of a device on `target` with a buffer on `node`.
    ///
    /// After Li et al. (ICPP 2013, Algorithm 1): the target is the sink of a device write and the
    /// source of a device read.
    pub fn of(direction: Direction, target: NodeId, node: NodeId) -> Self {
        match direction {
            Direction::Write => Self { source: node, sink: target },
            Direction::Read => Self { source: target, sink: node },
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.source, self.sink)
    }
}

/// The direction of I/O, from the view of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device write: memory to device.
    Write,
    /// Device read: device to memory.
    Read,
}

impl Direction {
    /// Returns `device write` or `device read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "device write",
            Self::Read => "device read",
        }
    }
}

/// CPUs with one thread each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Placement {
    /// The CPUs; each runs one pinned thread.
    pub cpus: CpuSet,
}

/// Page sizes of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Only base pages.
    Base,
    /// Transparent huge pages requested by madvise, or base pages if unavailable.
    Transparent,
    /// Reserved huge pages of the default size (hugetlb).
    Huge,
}

/// Sampling and end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "sampling", rename_all = "lowercase")]
pub enum Sampling {
    /// All threads copy their buffers repeatedly; the time in which all of them run is divided into
    /// equal slices, and each slice is a sample of the bytes of all threads.
    Window {
        /// Duration of the run after the warm-up, in milliseconds.
        milliseconds: u32,
        /// Number of slices.
        slices: u32,
    },
    /// Algorithm 1 as published: all threads start together and copy their buffers once,
    /// repeatedly; a sample is one repetition, from the first thread's start to the last thread's
    /// end.
    Repetitions {
        /// Number of repetitions.
        count: u32,
    },
}
