//! Options that commands share, and the parsers of their values.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::units::{parse_size, BandwidthUnit};
use numaio_machine::workload::{CopyLoop, Direction};
use numaio_transfer::choice::Choice;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Options common to all commands.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Common")]
pub struct Common {
    /// Use a recorded machine: a tape file, or amd-dl585-g7, intel-r820 or amd-2p (all emulated)
    #[arg(long, global = true, value_name = "NAME|TAPE", conflicts_with = "sysroot")]
    pub machine: Option<String>,
    /// Read the topology from a copy of /sys and /proc under DIR
    #[arg(long, global = true, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Print only errors to standard error: no progress and no remarks
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print details to standard error: files read and written, the machine, elapsed time; copy
    /// also prints the names of changed files
    #[arg(long, short, global = true, overrides_with_all = ["verbose", "quiet"])]
    pub verbose: bool,
    /// When to use color; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", env = "NUMAIO_COLOR")]
    pub color: Color,
    /// Unit of bandwidth: GB/s, GiB/s or Gbit/s
    #[arg(long, global = true, value_name = "UNIT", default_value = "GB/s", env = "NUMAIO_UNIT")]
    pub unit: BandwidthUnit,
}

impl Common {
    /// Returns options for internal calls, which print nothing to standard error.
    pub fn silent() -> Self {
        let unit = BandwidthUnit::default();
        Self { machine: None, sysroot: None, quiet: true, verbose: false, color: Color::Never, unit }
    }
}

/// When to use color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// A command line of some of the commands: `C` is an enum of them.
///
/// Building the options of all commands takes longer than the kernel needs to start a program.
#[derive(Debug, Parser)]
#[command(name = "numaio")]
pub struct Invocation<C: Subcommand> {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: C,
}

/// Options that select targets and directions.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Targets")]
pub struct TargetArgs {
    /// Target node; repeatable
    #[arg(long, short = 'k', value_name = "K", value_parser = node, allow_negative_numbers = true)]
    pub node: Vec<NodeId>,
    /// Target the node of this device, given by name or PCI address: eth0, nvme0n1, mlx5_0,
    /// 0000:3b:00.0 or 3b:00.0; repeatable
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// Target every node with CPUs, instead of nodes with devices
    #[arg(long, short, conflicts_with_all = ["node", "device"])]
    pub all: bool,
    /// Direction, as seen from the device
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
}

/// Which directions to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Directions {
    /// Memory to device
    Write,
    /// Device to memory
    Read,
    /// Both
    Both,
}

impl Directions {
    /// Returns the directions to measure.
    pub fn list(self) -> Vec<Direction> {
        match self {
            Self::Write => vec![Direction::Write],
            Self::Read => vec![Direction::Read],
            Self::Both => vec![Direction::Write, Direction::Read],
        }
    }

    /// Returns the direction, or none for both.
    pub fn one(self) -> Option<Direction> {
        match self {
            Self::Write => Some(Direction::Write),
            Self::Read => Some(Direction::Read),
            Self::Both => None,
        }
    }
}

/// Options of copy measurements.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArgs {
    /// Threads on the target [default: one on each core]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub threads: Option<u32>,
    /// Run one thread on each hardware thread
    #[arg(long, conflicts_with = "threads")]
    pub hyper_threads: bool,
    /// Copy loop: memcpy, avx512, avx2, stnp or rep-movsb [default: the fastest here]
    #[arg(long, value_name = "LOOP", value_parser = copy_loop)]
    pub copy_loop: Option<CopyLoop>,
    /// Size of each thread's source, and of its sink; default: four times the last-level cache over
    /// the threads. Smaller buffers are marked as possibly cached
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub buffer: Option<u64>,
    /// Fixed number of repetitions of every copy, instead of --precision; 100 in the paper
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, conflicts_with = "precision")]
    pub repetitions: Option<u32>,
    #[command(flatten)]
    pub rounds: RoundsArgs,
}

/// Options of measurements that run in rounds.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Measuring")]
pub struct RoundsArgs {
    /// Use reserved huge pages instead of transparent ones
    #[arg(long)]
    pub hugepages: bool,
    #[command(flatten)]
    pub stop: StopArgs,
}

/// Options of the end and the order of a measurement in rounds.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Measuring")]
pub struct StopArgs {
    /// Measure until the 95 % confidence interval of each median is within this, in percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub precision: f64,
    /// Maximum duration of the measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", env = "NUMAIO_TIME_LIMIT", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit: f64,
    /// Disable automatic NUMA balancing while measuring (needs root)
    #[arg(long)]
    pub pause_balancing: bool,
    /// Seed of the order of visits [default: the time]
    #[arg(long, value_name = "N", hide = true, value_parser = seed)]
    pub seed: Option<u64>,
}

/// Parses a node number.
pub fn node(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| "expected a node number, such as 0 or 7".to_owned())
}

fn copy_loop(text: &str) -> Result<CopyLoop, String> {
    let names = CopyLoop::ALL.map(CopyLoop::name).join(", ");
    let found = CopyLoop::ALL.into_iter().find(|copy_loop| copy_loop.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

/// Parses a size of at least 4 KiB.
fn buffer(text: &str) -> Result<u64, String> {
    parse_size(text)
        .ok()
        .filter(|bytes| *bytes >= 4096)
        .ok_or_else(|| "expected a size of at least 4K".to_owned())
}

/// Parses a percentage above 0 and below 100 as a share.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let number = number.filter(|number| *number > 0.0 && *number < 100.0);
    number
        .map(|number| number / 100.0)
        .ok_or_else(|| "expected a percentage above 0 and below 100".to_owned())
}

/// Parses a number of threads or repetitions.
pub fn count(text: &str) -> Result<u32, String> {
    integer(1..=10_000)(text)
}

/// Returns a parser of the named values of a choice, which help lists.
pub fn choice<C: Choice + Send + Sync>() -> impl TypedValueParser<Value = C> {
    let names = C::NAMED.iter().map(|(name, _)| *name);
    // clap admits only the names.
    PossibleValuesParser::new(names).map(|typed| C::from_name(&typed).unwrap_or(C::NAMED[0].1))
}

/// Returns a parser of integers in a range.
pub fn integer(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| integer_within(text, &range)
}

/// Parses the number of a port.
pub fn port(text: &str) -> Result<u16, String> {
    integer_within(text, &(1..=u16::MAX))
}

/// Parses a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    integer_within(text, &(0..=u64::MAX))
}

fn integer_within<N: FromStr + PartialOrd + Display>(
    text: &str,
    range: &RangeInclusive<N>,
) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected an integer from {} to {}", range.start(), range.end()))
}

/// Parses an IP address.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an IPv4 or IPv6 address".to_owned())
}

/// Shortest and longest time between observations, in seconds.
const INTERVALS: RangeInclusive<f64> = 0.1..=3600.0;

/// Parses a time between observations: `2s`, `500ms`, `1m`, or seconds without a unit.
pub fn interval(text: &str) -> Result<Duration, String> {
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

/// Parses a number of seconds above 0.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number of seconds above 0".to_owned())
}

/// The longest time limit of a run: workloads count milliseconds in 32 bits.
const MOST_SECONDS: f64 = 1e6;

/// Parses the time limit of a run of a program.
pub fn run_limit(text: &str) -> Result<f64, String> {
    let limit = seconds(text).ok().filter(|limit| *limit <= MOST_SECONDS);
    limit.ok_or_else(|| format!("expected a number of seconds above 0, at most {MOST_SECONDS}"))
}
