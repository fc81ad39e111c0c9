//! `--plan`: reads the plans of local sides.

use crate::commands::placement;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_machine::discover::discover;
use numaio_transfer::placement::SidePlan;
use std::path::PathBuf;

/// Reads plans, and prints their compromises.
pub fn read(common: &Common, paths: &[PathBuf]) -> Result<Vec<SidePlan>, Failure> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let mut all: Vec<SidePlan> = Vec::new();
    for path in paths {
        let (plan, placement) = placement::read_transfer(&machine, &topology, path)?;
        placement.compromises.iter().for_each(|compromise| output::remark(common, compromise));
        let planned = SidePlan::new(plan, placement);
        if all.iter().any(|other| other.side() == planned.side()) {
            return Err(Failure::file(path, "it is a second plan for the same side")
                .hint("give one plan to send and one to receive (numaio plan --receive)"));
        }
        all.push(planned);
    }
    Ok(all)
}
