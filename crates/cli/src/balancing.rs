//! Automatic NUMA balancing paused during a campaign.

use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::temporary_change::{TemporaryChange, TemporarySetting};
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_schema::AppliedChange;

const BALANCING: TemporarySetting = TemporarySetting {
    receipt: "balancing",
    busy: (
        "another run of numaio has paused NUMA balancing, and will switch it on again",
        "wait until it ends, or omit --pause-balancing",
    ),
    restored: "restored NUMA balancing, which a killed run had switched off",
    permission_hint: "run as root, or omit --pause-balancing",
};

/// Pauses balancing if requested, if the measured machine is this one, and if balancing is on.
pub fn pause<'a>(
    common: &'a Common,
    requested: bool,
    machine: &'a Machine,
    fingerprint: &str,
) -> Result<Option<TemporaryChange<'a>>, Failure> {
    let Some(kernel) = machine.kernel().filter(|_| requested) else { return Ok(None) };
    let plan = || {
        let mode = conditions::read(kernel).numa_balancing.filter(|mode| *mode != 0);
        let change = |mode| {
            let [change, inverse] = [0, mode].map(|mode| Change::NumaBalancing { mode });
            AppliedChange { change, inverse }
        };
        Ok(mode.map(change).into_iter().collect())
    };
    TemporaryChange::begin(common, kernel, fingerprint, &BALANCING, plan).map(Some)
}
