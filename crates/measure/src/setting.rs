//! What a campaign works on, and what it tells while it runs.

use numaio_machine::conditions::{self, Conditions};
use numaio_machine::probe::Probe;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, StreamLoop, StreamOp};
use numaio_schema::{MachineSource, Provenance, Warning};

/// The machine and the world around a campaign.
pub struct Setting<'a> {
    /// To see the machine's conditions.
    pub root: &'a dyn Sysfs,
    /// To run workloads.
    pub probe: &'a dyn Probe,
    /// The machine as seen.
    pub topology: &'a Topology,
    /// Where the machine comes from.
    pub source: MachineSource,
    /// Seconds since 1970, for the record.
    pub now: u64,
    /// Whether to stop, as after Ctrl-C.
    pub stop: &'a dyn Fn() -> bool,
}

/// What happens in a campaign, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The copy loop is chosen.
    LoopChosen(CopyLoop),
    /// The loop for an operation of STREAM is chosen.
    StreamLoopChosen(StreamOp, StreamLoop),
    /// A cell was visited.
    Visited {
        /// The round, from 1.
        round: u32,
        /// Cells that were visited at least once, or cannot be.
        reached: usize,
        /// Cells that need no further visit.
        settled: usize,
        /// All cells.
        cells: usize,
        /// Time spent on the machine, in seconds.
        elapsed_s: f64,
        /// Estimate of the time left, in seconds.
        remaining_s: f64,
    },
}

impl Setting<'_> {
    /// The machine's conditions now.
    pub(crate) fn conditions(&self) -> Conditions {
        conditions::read(self.root)
    }

    /// The head of a record.
    pub(crate) fn provenance(
        &self,
        conditions: (Conditions, Conditions),
        warnings: Vec<Warning>,
        complete: bool,
    ) -> Provenance {
        Provenance {
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            measured_at: self.now,
            machine: self.topology.identity.clone(),
            source: self.source.clone(),
            conditions,
            warnings,
            complete,
        }
    }
}
