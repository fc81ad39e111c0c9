//! Machine and environment of a campaign, and its progress events.

use crate::under_load::UnderLoad;
use numaio_machine::conditions::{self, Conditions};
use numaio_machine::probe::Probe;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, StreamLoop, StreamOp};
use numaio_schema::{MachineSource, Provenance, Warning};

/// Machine and environment of a campaign.
pub struct Setting<'a> {
    /// Source of the machine's conditions.
    pub root: &'a dyn Sysfs,
    /// Runs workloads.
    pub probe: &'a dyn Probe,
    /// The load that `probe` runs beside every workload, for the record.
    pub load: Option<&'a UnderLoad<'a>>,
    /// Topology of the machine.
    pub topology: &'a Topology,
    /// Origin of the machine.
    pub source: MachineSource,
    /// Current time in seconds since 1970, for the record.
    pub now: u64,
    /// Returns whether to stop, for example after Ctrl-C.
    pub stop: &'a dyn Fn() -> bool,
}

/// Progress event of a campaign.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The copy loop was chosen.
    LoopChosen(CopyLoop),
    /// The loop of a STREAM operation was chosen.
    StreamLoopChosen(StreamOp, StreamLoop),
    /// A cell was visited.
    Visited {
        /// Round, from 1.
        round: u32,
        /// Cells that were visited at least once, or cannot be visited.
        reached: usize,
        /// Cells that need no further visit.
        settled: usize,
        /// Total cells.
        cells: usize,
        /// Elapsed time on the machine, in seconds.
        elapsed_s: f64,
        /// Estimated remaining time, in seconds.
        remaining_s: f64,
    },
}

impl Setting<'_> {
    /// Reads the machine's current conditions.
    pub(crate) fn conditions(&self) -> Conditions {
        conditions::read(self.root)
    }

    /// Creates the provenance of a record.
    pub(crate) fn provenance(
        &self,
        conditions: (Conditions, Conditions),
        warnings: Vec<Warning>,
        complete: bool,
    ) -> Provenance {
        let mut provenance = Provenance {
            numaio: env!("CARGO_PKG_VERSION").to_owned(),
            measured_at: self.now,
            machine: self.topology.identity.clone(),
            source: self.source.clone(),
            conditions,
            warnings,
            complete,
            load: Vec::new(),
        };
        if let Some(load) = self.load {
            load.describe(&mut provenance);
        }
        provenance
    }
}
