//! Options of `numaio top`.

use crate::options::{integer, interval};
use clap::{Args, ValueEnum};
use numaio_model::top::ProgramSort;
use std::path::PathBuf;
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
    /// Returns the value of the model.
    pub fn value(self) -> ProgramSort {
        match self {
            Self::Cpu => ProgramSort::Cpu,
            Self::Memory => ProgramSort::Memory,
            Self::Io => ProgramSort::Io,
            Self::Remote => ProgramSort::Remote,
            Self::Pid => ProgramSort::Pid,
        }
    }
}
