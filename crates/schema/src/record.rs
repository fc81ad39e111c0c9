//! The record of a measurement campaign: method, conditions and results.

use crate::{Provenance, Summary};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::Residency;
use numaio_machine::workload::{CopyLoop, Flow, Pages, Placement};
use serde::{Deserialize, Serialize};

/// A campaign of measurements on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// [`RECORD_SCHEMA`](crate::RECORD_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The method.
    pub method: Method,
    /// The measurements, by flow.
    pub cells: Vec<Cell>,
}

/// The method of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Method {
    /// The copy loop.
    pub copy_loop: CopyLoop,
    /// The trials by which the loop was selected; empty if the user selected it.
    pub trials: Vec<LoopTrial>,
    /// Name and version of the C library whose `memcpy` was measured, because `memcpy` differs
    /// between libraries. `None` if `memcpy` was not run, or the machine did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<String>,
    /// Maximum bytes on the memory bus per byte copied with this loop.
    pub bus_bytes_per_byte: u32,
    /// Bytes of each thread's source, and of its sink, by target.
    pub bytes_per_thread: Vec<(NodeId, u64)>,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Fixed number of repetitions (Algorithm 1 as printed); `None` for rounds until precise.
    pub repetitions: Option<u32>,
    /// Half width of the 95 % interval of a cell's median, relative to it, at which the cell is
    /// settled.
    pub precision: f64,
    /// Time limit in seconds.
    pub time_limit_s: f64,
    /// Time spent on the machine, in seconds: buffers, checks and copies.
    pub elapsed_s: f64,
    /// Seed of the order of visits.
    pub seed: u64,
    /// Rounds started.
    pub rounds: u32,
}

/// The trial of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoopTrial {
    /// The loop.
    pub copy_loop: CopyLoop,
    /// Median bandwidth; `None` if this machine cannot run the loop.
    pub bytes_copied_per_s: Option<f64>,
}

/// A flow measured by threads on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// The node of the threads: the target.
    pub target: NodeId,
    /// Source and sink node. The target is the sink for a device write, the source for a device
    /// read.
    #[serde(flatten)]
    pub flow: Flow,
    /// The threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// The visits in order of time.
    pub visits: Vec<Visit>,
    /// Summary of the medians of the visits; `None` if nothing was measured.
    pub bytes_copied_per_s: Option<Summary>,
    /// Whether the interval is within the precision.
    pub settled: bool,
    /// Why the summary is missing, or why visits failed.
    pub failure: Option<String>,
}

/// A visit to a cell: a run with fresh buffers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Visit {
    /// The round.
    pub round: u32,
    /// Median of the samples.
    pub bytes_copied_per_s: f64,
    /// Smallest sample.
    pub min_bytes_copied_per_s: f64,
    /// Largest sample.
    pub max_bytes_copied_per_s: f64,
    /// Number of samples.
    pub samples: u32,
    /// Time between the first and the last thread's start.
    pub start_skew_ns: u64,
    /// The nodes of the pages.
    pub residency: Residency,
    /// Why the visit is excluded from the summary: its pages were not on the requested nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
}

impl Record {
    /// Returns the cell of a flow measured from a target.
    pub fn cell(&self, target: NodeId, flow: Flow) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.target == target && cell.flow == flow)
    }
}
