//! `numaio` without a command on a terminal: this machine in brief, and what to run next.

use super::{placement, tape_io};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use numaio_machine::discover::discover;
use std::process::ExitCode;

/// Prints the overview.
pub fn run(common: &Common) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    let topology = discover(&machine);
    let models = placement::models(common, &machine, &topology, None)?;
    let expected =
        placement::expectation(&topology, &models, &tape_io::measured(common, &machine, &topology)?);
    output::print(&numaio_report::overview_text(&topology, &expected, &output::style(common)))?;
    Ok(ExitCode::SUCCESS)
}
