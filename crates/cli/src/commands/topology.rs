//! `numaio topology`: shows a machine.

use super::json;
use crate::args::{Common, TopologyArgs};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use numaio_machine::discover::discover;
use numaio_schema::TopologyDocument;
use std::process::ExitCode;

/// Runs `numaio topology`.
pub fn run(common: &Common, args: &TopologyArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    match &args.svg {
        Some(path) => {
            if output::write(path, &numaio_report::topology_svg(&topology))? {
                output::remark(common, &format!("wrote the drawing to '{}'", path.display()));
            }
        }
        None if args.json => {
            output::print(&json(&TopologyDocument::with_time(topology, machine.seen_at()))?)?
        }
        None => output::print(&numaio_report::topology_text(&topology, &output::style(common)))?,
    }
    Ok(ExitCode::SUCCESS)
}
