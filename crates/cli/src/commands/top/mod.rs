//! `numaio top`: live view of nodes, devices, programs and transfers.

mod feed;
mod live;
mod recording;
mod sampler;
mod screen;
mod terminal;
mod undo_offer;
mod view;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::{integer, Common};
use crate::output;
use clap::{Args, ValueEnum};
use numaio_model::top::{arrange, ProgramFilter, ProgramSort};
use numaio_schema::{TopRecording, TopSnapshot};
use sampler::Sampler;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Show live which programs are remote, with nodes, devices and transfers
///
/// Press ? for the keys. Nothing is measured, and changed only after a confirmation. Programs of
/// other users need root for their memory, devices and I/O.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TopArgs {
    /// Print one sample over the interval, and exit
    #[arg(long)]
    pub once: bool,
    /// Print JSON with --once
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Time between samples, such as 2s or 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval, allow_negative_numbers = true)]
    pub every: Duration,
    /// Value that sorts programs
    #[arg(long, value_name = "VALUE", default_value = "cpu")]
    pub sort: SortArg,
    /// Show only programs with TEXT in their name, unit or devices, or with that process ID
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Record samples into a new FILE without a view, until interrupted (- for standard output)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["once", "replay"])]
    pub record: Option<PathBuf>,
    /// Stop the recording after N samples
    #[arg(long, value_name = "N", value_parser = integer(1..=u32::MAX), requires = "record", allow_negative_numbers = true)]
    pub samples: Option<u32>,
    /// Show the samples that --record wrote to FILE, at the pace of their recording; --once prints
    /// the last one
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  numaio top                               show this machine
  numaio top --once --sort remote          print one sample, remote programs first
  numaio top --record day.top              record samples
  numaio top --replay day.top              show them again

Exit status: 0 success; 1 failure; 2 wrong usage.";

/// Value that sorts programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortArg {
    /// CPU time, highest first
    Cpu,
    /// Memory, highest first
    Memory,
    /// I/O, highest first
    Io,
    /// Remote share, highest first
    Remote,
    /// Process ID, lowest first
    Pid,
}

impl SortArg {
    fn value(self) -> ProgramSort {
        match self {
            Self::Cpu => ProgramSort::Cpu,
            Self::Memory => ProgramSort::Memory,
            Self::Io => ProgramSort::Io,
            Self::Remote => ProgramSort::Remote,
            Self::Pid => ProgramSort::Pid,
        }
    }
}

/// Shortest and longest time between samples, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Parses a time between samples: `2s`, `500ms`, `1m`, or seconds without a unit.
fn interval(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" | "s" => Some(1.0),
        "ms" => Some(1e-3),
        "m" | "min" => Some(60.0),
        _ => None,
    };
    let seconds = number.trim().parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    let seconds = seconds.filter(|seconds| INTERVALS.contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a time from 100ms to 60m, such as 2s or 500ms".to_owned())
}

/// Runs `numaio top`.
pub fn run(common: &Common, args: &TopArgs) -> Result<ExitCode, Failure> {
    if let Some(recording) = replayed(common, args)? {
        return match args.once {
            true => print_last(common, args, &recording),
            false => live::replay(common, args, recording),
        };
    }
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine has no running programs").hint(
            "numaio top --record FILE records running programs over time; numaio top --replay FILE shows them",
        ));
    }
    if let Some(path) = &args.record {
        return recording::record(Sampler::new(common, machine)?, args, path);
    }
    if !args.once {
        terminal::check()?;
        return live::observe(common, args, Sampler::new(common, machine)?);
    }
    let snapshot = Sampler::new(common, machine)?.sample_once(args.every);
    print(common, args, &snapshot)
}

/// Reads the recording of `--replay`, or of `--machine` if that is one.
fn replayed(common: &Common, args: &TopArgs) -> Result<Option<TopRecording>, Failure> {
    match (&args.replay, &common.machine) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("--replay cannot be combined with --machine").hint("omit --machine"))
        }
        (Some(path), None) => recording::read(common, path).map(Some),
        (None, Some(name)) if recording::is_recording(Path::new(name)) && args.record.is_none() => {
            recording::read(common, Path::new(name)).map(Some)
        }
        _ => Ok(None),
    }
}

fn print_last(common: &Common, args: &TopArgs, recording: &TopRecording) -> Result<ExitCode, Failure> {
    match recording.snapshots.last() {
        Some(snapshot) => print(common, args, snapshot),
        None => Err(Failure::new("the recording has no samples")),
    }
}

fn print(common: &Common, args: &TopArgs, snapshot: &TopSnapshot) -> Result<ExitCode, Failure> {
    let filter = ProgramFilter::new(args.filter.as_deref().unwrap_or_default());
    let order = arrange(snapshot, args.sort.value(), &filter);
    let text = match args.json {
        true => {
            let programs = order.iter().map(|index| snapshot.programs[*index].clone()).collect();
            output::json(&TopSnapshot { programs, ..snapshot.clone() })?
        }
        false => numaio_report::top::top_text(snapshot, &order, &output::style(common)),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
