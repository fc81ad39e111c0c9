//! What was measured, how, and in what conditions.

use crate::{DocumentError, Provenance, Summary};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::Residency;
use numaio_machine::workload::{CopyLoop, Flow, Pages, Placement};
use serde::{Deserialize, Serialize};

/// Version of [`Record`].
pub const RECORD_SCHEMA: &str = "numaio/record/1";

/// A campaign of measurements on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// How it was measured.
    pub method: Method,
    /// What was measured, by flow.
    pub cells: Vec<Cell>,
}

/// Where the machine came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum MachineSource {
    /// This Linux.
    Live,
    /// A tape.
    Tape {
        /// Its name.
        name: String,
        /// Its note, as that the machine was emulated.
        note: String,
    },
    /// A simulation.
    Simulated,
}

/// How cells were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// The copy loop used.
    pub copy_loop: CopyLoop,
    /// The trial in which it was chosen; empty if the user chose it.
    pub trials: Vec<LoopTrial>,
    /// The C library whose `memcpy` is among the loops tried or used, with its version: two programs of which it
    /// differs copy by different means. None if `memcpy` was not run, or the machine did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<String>,
    /// Bytes that cross the memory bus for each byte copied with that loop, at most.
    pub bus_bytes_per_byte: u32,
    /// Bytes of each thread's source and again of its sink, by target.
    pub bytes_per_thread: Vec<(NodeId, u64)>,
    /// Pages behind the buffers.
    pub pages: Pages,
    /// Fixed repetitions (Algorithm 1 as printed); none if sampled in rounds until precise.
    pub repetitions: Option<u32>,
    /// Half width of the 95 % interval of a cell's median, relative to it, at which the cell is settled.
    pub precision: f64,
    /// Time limit in seconds.
    pub time_limit_s: f64,
    /// Time spent on the machine, in seconds: buffers, checks and copies.
    pub elapsed_s: f64,
    /// Seed of the order in which cells were visited.
    pub seed: u64,
    /// Rounds begun.
    pub rounds: u32,
}

/// One loop's trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopTrial {
    /// The loop.
    pub copy_loop: CopyLoop,
    /// Median bandwidth; none if this machine cannot run it.
    pub bytes_copied_per_s: Option<f64>,
}

/// One flow, measured by threads on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Node of the threads: the target.
    pub target: NodeId,
    /// From where to where. For a device write the sink is the target, for a device read the source.
    #[serde(flatten)]
    pub flow: Flow,
    /// The threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// Visits in order of time.
    pub visits: Vec<Visit>,
    /// Over the medians of the visits. None if nothing was measured.
    pub bytes_copied_per_s: Option<Summary>,
    /// Whether the interval is within the precision.
    pub settled: bool,
    /// Why there is no figure, or why visits failed.
    pub failure: Option<String>,
}

/// One visit to a cell: fresh buffers, one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Where the pages were.
    pub residency: Residency,
    /// Why this visit is left out of the summary, if it is: its pages were not where they were bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
}

/// Something that makes figures doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable name, as in `other-load`.
    pub rule: String,
    /// One sentence for people, the cause named where it can be seen.
    pub what: String,
}

impl Record {
    /// Reads a record.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, RECORD_SCHEMA)
    }

    /// The cell of a flow measured from a target.
    pub fn cell(&self, target: NodeId, flow: Flow) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.target == target && cell.flow == flow)
    }
}
