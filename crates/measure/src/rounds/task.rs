//! Tasks, the stopping rule, and results of a campaign in rounds.

use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Workload;
use numaio_schema::{Reading, Rounds, Summary};
use std::fmt;

/// Stopping rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Relative half-width of the 95 % interval of a median at which a task is settled.
    pub precision: f64,
    /// Minimum visits per task. With six on a tape, any part of a campaign settles by itself when
    /// replayed, since the intervals then do not depend on the noise of other tasks.
    pub least_visits: u32,
    /// Time limit on the machine, in seconds. The first visit is always made.
    pub time_limit_s: f64,
    /// Seed of the visit order.
    pub seed: u64,
    /// Whether each task is visited once, with all samples as values, instead of in rounds until
    /// precise.
    pub fixed: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self { precision: 0.02, least_visits: 2, time_limit_s: 300.0, seed: 1, fixed: false }
    }
}

/// A measurement task.
pub(crate) struct Task {
    /// Workload.
    pub workload: Workload,
    /// Group of tasks to complete first if time is short.
    pub group: NodeId,
    /// Key of comparable tasks within a group, such as those at one SLIT distance.
    pub alike: Option<(u32, u32)>,
    /// Reason why it cannot run, if known in advance.
    pub impossible: Option<ProbeError>,
}

/// A cell that threads of one node measure.
pub(crate) struct NodeCell<W> {
    /// The node of the threads; cells of a node form a group.
    pub cpu_node: NodeId,
    pub workload: W,
    /// Reason why it cannot run, if known in advance.
    pub impossible: Option<ProbeError>,
}

impl<W: Clone> NodeCell<W> {
    /// Returns the task of the cell.
    pub fn task(&self, workload: fn(W) -> Workload, alike: Option<(u32, u32)>) -> Task {
        Task {
            workload: workload(self.workload.clone()),
            group: self.cpu_node,
            alike,
            impossible: self.impossible.clone(),
        }
    }
}

/// Result of a task.
pub(crate) struct Measured {
    pub reading: Reading,
    /// Bandwidth of loading threads over the visits, in bytes per second.
    pub load: Option<Summary>,
    /// Reason for a missing result or failed visits.
    pub failure: Option<ProbeError>,
    /// Whether a recheck was requested and not completed.
    pub recheck_incomplete: bool,
}

/// Result of a campaign in rounds.
pub(crate) struct Finished {
    /// Results in the order of tasks.
    pub measured: Vec<Measured>,
    pub rounds: u32,
    /// Time on the machine in nanoseconds, including time spent before.
    pub elapsed_ns: u64,
    /// Reason for stopping before every task was settled.
    pub stop_reason: Option<StopReason>,
    /// Lowest and highest CPU frequency after the first visit, in MHz, since CPUs were idle before.
    pub busy_mhz: Option<(u32, u32)>,
}

/// Reason for stopping before every task is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Interrupt,
    TimeLimit,
    /// The byte limit of the visits was reached.
    ByteLimit,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "interrupted",
            Self::TimeLimit => "time limit reached",
            Self::ByteLimit => "byte limit reached",
        })
    }
}

impl Finished {
    /// Returns the error if nothing was measured.
    pub fn nothing(&self) -> Option<ProbeError> {
        if self.measured.iter().any(|measured| measured.reading.summary.is_some()) {
            return None;
        }
        let failure = self.measured.iter().find_map(|measured| measured.failure.clone());
        let failure = failure.filter(|_| self.stop_reason != Some(StopReason::Interrupt));
        Some(failure.unwrap_or(ProbeError::Interrupted))
    }

    /// Returns whether every task has a settled result.
    pub fn complete(&self) -> bool {
        self.stop_reason != Some(StopReason::Interrupt)
            && self.measured.iter().all(|measured| measured.reading.settled)
    }

    /// Converts the rounds for the record.
    pub fn rounds(&self, rule: &Rule) -> Rounds {
        Rounds {
            precision: rule.precision,
            time_limit_s: rule.time_limit_s,
            elapsed_s: self.elapsed_ns as f64 / 1e9,
            seed: rule.seed,
            rounds: self.rounds,
        }
    }
}
