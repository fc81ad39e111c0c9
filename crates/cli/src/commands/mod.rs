//! The commands, one module each: they parse arguments, read documents and write results.

pub mod bench;
pub mod compare;
pub mod copy;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod irq;
pub mod jobs;
pub mod keygen;
pub mod latency;
mod matrix;
mod measuring;
mod model;
pub mod near;
pub mod place;
mod placement;
pub mod plan;
pub mod predict;
mod prediction_inputs;
mod record;
pub mod report;
pub mod run;
pub mod serve;
pub mod status;
pub mod stream;
mod tape_documents;
mod tape_io;
mod topology;
pub mod undo;
pub mod validate;

use crate::args::{Args, Command};
use crate::failure::Failure;
use std::process::ExitCode;

/// Runs the requested command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Topology(command) => topology::run(&args.common, command),
        Command::Model(command) => model::run(&args.common, command),
        Command::Stream(command) => stream::run(&args.common, command),
        Command::Latency(command) => latency::run(&args.common, command),
        Command::Bench(command) => bench::run(&args.common, command),
        Command::Copy(command) => copy::run(&args.common, command),
        Command::Jobs(command) => jobs::run(&args.common, command),
        Command::Serve(command) => serve::run(&args.common, command),
        Command::Keygen(command) => keygen::run(&args.common, command),
        Command::Peer(_) => copy::peer::run(),
        Command::Record(command) => record::run(&args.common, command),
        Command::Compare(command) => compare::run(&args.common, command),
        Command::Validate(command) => validate::run(&args.common, command),
        Command::Predict(command) => predict::run(&args.common, command),
        Command::Export(command) => export::run(&args.common, command),
        Command::Report(command) => report::run(&args.common, command),
        Command::Place(command) => place::run(&args.common, command),
        Command::Run(command) => run::run(&args.common, command),
        Command::Near(command) => near::run(&args.common, command),
        Command::Status(command) => status::run(&args.common, command),
        Command::Plan(command) => plan::run(&args.common, command),
        Command::Doctor(command) => doctor::run(&args.common, command),
        Command::Irq(command) => irq::run(&args.common, command),
        Command::Undo(command) => undo::run(&args.common, command),
        Command::Generate(command) => generate::run(command),
    }
}

/// Formats a value as one line of JSON, for another numaio process.
fn json_line(value: &impl serde::Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|line| line + "\n")
}

/// Formats a document as indented JSON.
fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(document).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}
