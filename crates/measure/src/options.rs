//! Options of a copy campaign, and reasons why a campaign may fail.

use crate::rounds::Rule;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_machine::workload::{CopyLoop, Direction, Pages};

/// Options of a copy campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Target nodes to characterize.
    pub targets: NodeSet,
    /// Directions.
    pub directions: Vec<Direction>,
    /// Threads on a target.
    pub threads: Threads,
    /// Copy loop; none to choose the fastest in a trial.
    pub copy_loop: Option<CopyLoop>,
    /// Bytes of each thread's source and of its sink; none for four times the last-level cache
    /// over the threads.
    pub buffer_bytes: Option<u64>,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Relative half-width of the 95 % interval of a cell's median at which the cell is settled.
    pub precision: f64,
    /// Minimum visits per cell. With six on a tape, any part of the campaign settles by itself when
    /// replayed, since the intervals then do not depend on the noise of other cells.
    pub least_visits: u32,
    /// Time limit on the machine, in seconds.
    pub time_limit_s: f64,
    /// Fixed repetitions, as Algorithm 1 is printed, instead of rounds until precise.
    pub repetitions: Option<u32>,
    /// Seed of the visit order.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            targets: NodeSet::new(),
            directions: vec![Direction::Write, Direction::Read],
            threads: Threads::Cores,
            copy_loop: None,
            buffer_bytes: None,
            pages: Pages::Transparent,
            precision: 0.02,
            least_visits: 2,
            time_limit_s: 300.0,
            repetitions: None,
            seed: 1,
        }
    }
}

impl Options {
    /// Returns the stopping rule.
    pub(crate) fn rule(&self) -> Rule {
        Rule {
            precision: self.precision,
            least_visits: self.least_visits,
            time_limit_s: self.time_limit_s,
            seed: self.seed,
            fixed: self.repetitions.is_some(),
        }
    }
}

/// Threads on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One per core: Algorithm 1.
    Cores,
    /// One per hardware thread.
    HardwareThreads,
    /// A fixed number: on cores first, then on their other hardware threads.
    Count(u32),
}

/// Reason why nothing could be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CampaignError {
    /// No target was given.
    #[error("there is no node to measure")]
    NoTarget,
    /// No such node.
    #[error("there is no node {node}; this machine has nodes {nodes}")]
    UnknownNode {
        /// Requested node.
        node: NodeId,
        /// Existing nodes.
        nodes: NodeSet,
    },
    /// No usable CPU.
    #[error("node {node} has no CPU that this process may use")]
    NoCpus {
        /// The node.
        node: NodeId,
    },
    /// No usable memory.
    #[error("node {node} has no memory that this process may use")]
    NoMemory {
        /// The node.
        node: NodeId,
    },
    /// More threads than CPUs.
    #[error("node {node} has {cpus} CPUs that this process may use, fewer than {threads} threads")]
    TooManyThreads {
        /// The node.
        node: NodeId,
        /// Requested threads.
        threads: u32,
        /// Usable CPUs.
        cpus: u32,
    },
    /// The buffers do not fit.
    #[error(
        "node {node} has {} free, and buffers of four times the last-level cache need {}",
        format_size(*.free_bytes), format_size(*.needed_bytes)
    )]
    TooLittleMemory {
        /// The node.
        node: NodeId,
        /// Required bytes.
        needed_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A measuring program is missing.
    #[error("{program} is not installed")]
    NoProgram {
        /// Program name.
        program: String,
        /// How to install it.
        remedy: String,
    },
    /// The program of a sweep does not exist.
    #[error("cannot execute '{program}': no such program")]
    ProgramNotFound {
        /// Its name or path.
        program: String,
    },
    /// No cell could be measured; the reason of the first one.
    #[error("nothing could be measured: {0}")]
    Nothing(ProbeError),
}
