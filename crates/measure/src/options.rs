//! What a campaign is asked to do, and why it may be unable to.

use crate::rounds::Rule;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::NodeSet;
use numaio_machine::units::size_for_people;
use numaio_machine::workload::{CopyLoop, Direction, Pages};

/// What a campaign is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Targets; the nodes that are characterised.
    pub targets: NodeSet,
    /// Directions.
    pub directions: Vec<Direction>,
    /// Threads on a target.
    pub threads: Threads,
    /// The copy loop; none to choose the fastest in a trial.
    pub copy_loop: Option<CopyLoop>,
    /// Pages behind the buffers.
    pub pages: Pages,
    /// Half width of the 95 % interval of a cell's median, relative to it, at which the cell is settled.
    pub precision: f64,
    /// Visits of every cell at the least. Six, on a tape, let any part of the campaign settle by itself when
    /// it is replayed: the intervals then need no other cell's noise.
    pub least_visits: u32,
    /// Time to spend on the machine, in seconds.
    pub time_limit_s: f64,
    /// Fixed repetitions, as Algorithm 1 is printed, in place of rounds until precise.
    pub repetitions: Option<u32>,
    /// Seed of the order in which cells are visited.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            targets: NodeSet::new(),
            directions: vec![Direction::Write, Direction::Read],
            threads: Threads::Cores,
            copy_loop: None,
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
    /// When to stop.
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

/// How many threads run on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One on each core: Algorithm 1.
    Cores,
    /// One on each hardware thread.
    HardwareThreads,
    /// This many: on cores first, then on their other hardware threads.
    Count(u32),
}

/// Why nothing could be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CampaignError {
    /// No target was given.
    #[error("there is no node to measure")]
    NoTarget,
    /// No such node.
    #[error("there is no node {node}; this machine has nodes {nodes}")]
    UnknownNode {
        /// The node asked for.
        node: NodeId,
        /// Those there are.
        nodes: NodeSet,
    },
    /// No CPU to run on.
    #[error("node {node} has no CPU that this process may use")]
    NoCpus {
        /// The node.
        node: NodeId,
    },
    /// No memory to copy from or to.
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
        /// Threads asked for.
        threads: u32,
        /// CPUs there are.
        cpus: u32,
    },
    /// The buffers do not fit.
    #[error(
        "node {node} has {} free, and buffers of four times the last-level cache need {}",
        size_for_people(*.free_bytes), size_for_people(*.needed_bytes)
    )]
    TooLittleMemory {
        /// The node.
        node: NodeId,
        /// Bytes needed on it.
        needed_bytes: u64,
        /// Bytes it has free.
        free_bytes: u64,
    },
    /// A program that measures is missing.
    #[error("{program} is not installed")]
    NoProgram {
        /// Its name.
        program: String,
        /// How to come by it.
        remedy: String,
    },
    /// No cell could be measured; the first one's reason.
    #[error("nothing could be measured: {0}")]
    Nothing(ProbeError),
}
