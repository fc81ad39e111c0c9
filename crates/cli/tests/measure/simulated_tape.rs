//! Recordings of simulated machines, whose tapes commands replay.

use numaio_machine::probe::{Outcome, Probe, ProbeError};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tape::{Recording, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;
use numaio_machine::workload::Workload;
use numaio_measure::Setting;
use numaio_schema::MachineSource;
use numaio_sim::Simulated;
use std::sync::{Mutex, PoisonError};

/// A simulated machine shared by several threads.
pub struct Shared(Tree, Mutex<Simulated>);

impl Sysfs for Shared {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.0.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.0.resolve(path)
    }
}

impl Probe for Shared {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).run(workload)
    }
}

/// Starts to record a machine.
pub fn recording(machine: Simulated) -> Recording<Shared> {
    let header = TapeHeader {
        tape: TAPE_SCHEMA.into(),
        numaio: "test".into(),
        name: "simulated".into(),
        note: "of no real machine".into(),
        recorded_at: 1_800_000_000,
    };
    Recording::new(Shared(machine.tree(), Mutex::new(machine)), header)
}

/// Returns the setting of a campaign on a recorded machine.
pub fn setting<'a>(machine: &'a Recording<Shared>, topology: &'a Topology) -> Setting<'a> {
    Setting {
        root: machine,
        probe: machine,
        load: None,
        topology,
        source: MachineSource::Simulated,
        now: 1,
        stop: &|| false,
    }
}
