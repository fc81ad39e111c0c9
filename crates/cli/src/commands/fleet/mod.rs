//! `numaio fleet`: documents of many hosts in one store.

mod add;
mod check;
mod content;
mod dates;
mod export;
mod page;
mod rebuild;
mod show;
mod store_access;

use crate::failure::Failure;
use crate::options::Common;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Compare many hosts: collect their documents, show groups, find substandard hosts
///
/// The store is one SQLite file. Its documents stay the truth: numaio fleet rebuild derives all
/// other tables from them again.
#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

pub use page::{check_of, page};

/// The commands of a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    Add(add::AddArgs),
    Show(show::ShowArgs),
    Check(check::CheckArgs),
    Export(export::ExportArgs),
    Rebuild(rebuild::RebuildArgs),
}

/// Runs `numaio fleet`.
pub fn run(common: &Common, args: &FleetArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("a fleet consists of documents, not of a recorded machine"));
    }
    match &args.command {
        FleetCommand::Add(args) => add::run(common, args),
        FleetCommand::Show(args) => show::run(common, args),
        FleetCommand::Check(args) => check::run(common, args),
        FleetCommand::Export(args) => export::run(common, args),
        FleetCommand::Rebuild(args) => rebuild::run(common, args),
    }
}
