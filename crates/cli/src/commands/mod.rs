//! One file a command: typed arguments, documents in, one call, a document out.

pub mod export;
mod generate;
mod model;
mod record;
pub mod report;
mod topology;

use crate::args::{Args, Command, Common, MeasuringArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use numaio_linux::interrupt;
use numaio_machine::probe::Probe;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Pages;
use numaio_measure::{campaign, Options, Setting, Threads};
use numaio_schema::{MachineSource, Record};
use std::process::ExitCode;

/// Runs the command that was typed.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Topology(command) => topology::run(&args.common, command),
        Command::Model(command) => model::run(&args.common, command),
        Command::Record(command) => record::run(&args.common, command),
        Command::Export(command) => export::run(&args.common, command),
        Command::Report(command) => report::run(&args.common, command),
        Command::Generate(command) => generate::run(command),
    }
}

/// Measuring options as they were meant; targets and directions are added by the command.
fn options(measuring: &MeasuringArgs, seed: u64) -> Options {
    let threads = match (measuring.threads, measuring.hyper_threads) {
        (Some(count), _) => Threads::Count(count),
        (None, true) => Threads::HardwareThreads,
        (None, false) => Threads::Cores,
    };
    Options {
        threads,
        copy_loop: measuring.copy_loop,
        pages: if measuring.hugepages { Pages::Huge } else { Pages::Transparent },
        precision: measuring.precision,
        time_limit_s: measuring.time_limit,
        repetitions: measuring.repetitions,
        seed: measuring.seed.unwrap_or(seed),
        ..Options::default()
    }
}

/// The machine that is measured.
struct Measured<'a> {
    root: &'a dyn Sysfs,
    probe: &'a dyn Probe,
    topology: &'a Topology,
    source: MachineSource,
}

/// Runs a campaign, with progress; Ctrl-C ends it early.
fn measure(common: &Common, machine: Measured, now: u64, options: &Options) -> Result<Record, Failure> {
    interrupt::install().map_err(|error| Failure::new(format!("cannot watch for Ctrl-C: {error}")))?;
    let Measured { root, probe, topology, source } = machine;
    let setting = Setting { root, probe, topology, source, now, stop: &interrupt::interrupted };
    let progress = Progress::new(common);
    let record = campaign::run(&setting, options, &mut |event| progress.show(event));
    drop(progress);
    match record {
        Err(_) if interrupt::interrupted() => Err(Failure {
            code: crate::failure::INTERRUPTED,
            ..Failure::new("interrupted before anything was measured")
        }),
        record => Ok(record?),
    }
}

/// A document as JSON for people and programs.
fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(document).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}
