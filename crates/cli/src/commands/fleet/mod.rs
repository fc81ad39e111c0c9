//! `numaio fleet`: measures many hosts, and keeps their documents in one store.

mod add;
mod check;
mod content;
mod dates;
mod export;
pub mod host_report;
mod page;
mod rebuild;
pub mod resume;
pub mod run;
mod run_options;
mod show;
mod store_access;

use crate::failure::Failure;
use crate::options::Common;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Measure and compare many hosts: collect their documents, show groups, find substandard hosts
///
/// The store is one SQLite file. Its documents stay the truth: numaio fleet rebuild derives all
/// other tables from them again.
#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

pub use page::{check_of, page, summary_of};

/// The commands of a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    Run(Box<run::RunArgs>),
    Status(resume::StatusArgs),
    Resume(resume::ResumeArgs),
    /// Measure this host for a run (internal)
    #[command(hide = true)]
    HostReport(host_report::HostReportArgs),
    Add(add::AddArgs),
    Show(show::ShowArgs),
    Check(check::CheckArgs),
    Export(export::ExportArgs),
    Rebuild(rebuild::RebuildArgs),
}

/// Runs `numaio fleet`.
pub fn run(common: &Common, args: &FleetArgs, parse: run::ParseCommand) -> Result<ExitCode, Failure> {
    let measures = matches!(args.command, FleetCommand::Run(_) | FleetCommand::HostReport(_));
    if !measures && (common.machine.is_some() || common.sysroot.is_some()) {
        return Err(Failure::usage("a fleet consists of documents, not of a recorded machine"));
    }
    match &args.command {
        FleetCommand::Run(args) => run::run(common, args, parse),
        FleetCommand::Status(args) => resume::status(common, args),
        FleetCommand::Resume(args) => resume::resume(common, args, parse),
        FleetCommand::HostReport(args) => host_report::run(common, args),
        FleetCommand::Add(args) => add::run(common, args),
        FleetCommand::Show(args) => show::run(common, args),
        FleetCommand::Check(args) => check::run(common, args),
        FleetCommand::Export(args) => export::run(common, args),
        FleetCommand::Rebuild(args) => rebuild::run(common, args),
    }
}
