//! The command line: all commands, the options common to them, and value parsers.

use crate::commands::copy;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgAction, ArgMatches, Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand,
    ValueEnum,
};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{CopyLoop, Direction};
use numaio_schema::ClassRule;
use std::ffi::OsString;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// Measure, model and use the I/O bandwidth of NUMA machines.
///
/// The node on which a program runs and the node of its buffers decide whether it gets the full
/// bandwidth of a device or half of it, and the effect differs by direction. numaio measures this
/// without the device: threads on the device's node copy between nodes as its DMA engine would
/// (Li et al., ICPP 2013).
#[derive(Debug, Parser)]
#[command(name = "numaio", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Parses the command line, and exits with a message if it is invalid.
    ///
    /// `numaio copy -h` alone prints help. With other arguments `-h` means human-readable numbers,
    /// as in rsync, so that scripts written for rsync copy files.
    pub fn from_command_line() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        let mut command = Self::command();
        if matches!(&words[..], [_, copy, h] if copy == "copy" && h == "-h") {
            let help =
                |copy: clap::Command| copy.mut_arg("human_readable", |arg| arg.action(ArgAction::HelpShort));
            command = command.mut_subcommand("copy", help);
        }
        let matches =
            parse(command, &words).unwrap_or_else(|error| Self::explain_parse_error(error, &words).exit());
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Self::command()).exit())
    }

    /// Names the environment variable of a wrong value, and the alternative to an rsync option that
    /// `numaio copy` lacks.
    fn explain_parse_error(mut error: clap::Error, words: &[OsString]) -> clap::Error {
        if let Some(variable) = variable_of_wrong_value(&error, words) {
            let tip = format!("the value is from the environment variable {variable}").into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
        let is_copy = words.iter().any(|word| word == "copy");
        if !is_copy || error.kind() != ErrorKind::UnknownArgument {
            return error;
        }
        let command = Self::command().mut_subcommand("copy", copy::with_unsupported_options);
        let mut error = command.try_get_matches_from(words).err().unwrap_or(error);
        copy::remove_unsupported_suggestion(&mut error);
        error
    }
}

/// Returns the environment variable of a wrong value of an option that was not passed.
fn variable_of_wrong_value(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else { return None };
    let long = option.split([' ', '=']).next()?;
    let is_passed = words.iter().any(|word| word.to_string_lossy().starts_with(long));
    let variable = format!("NUMAIO_{}", long.trim_start_matches('-').replace('-', "_").to_uppercase());
    (!is_passed && std::env::var_os(&variable).is_some()).then_some(variable)
}

/// Options with a default from the environment that conflict with others.
const ENV_CONFLICTS: [&str; 2] = ["streams", "time_limit"];

/// Parses a command line. A default from the environment never conflicts with an option: on a
/// conflict such defaults are ignored, and only conflicts between arguments remain.
fn parse(command: clap::Command, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    match command.clone().try_get_matches_from(words) {
        Err(error) if error.kind() == ErrorKind::ArgumentConflict => {
            without_env(command).try_get_matches_from(words)
        }
        parsed => parsed,
    }
}

fn without_env(command: clap::Command) -> clap::Command {
    let clear = |arg: Arg| match ENV_CONFLICTS.contains(&arg.get_id().as_str()) {
        true => arg.env(None),
        false => arg,
    };
    command.mut_args(clear).mut_subcommands(without_env)
}

/// The command line of `numaio run` alone.
///
/// Building the options of all commands takes longer than the kernel needs to start a program.
#[derive(Debug, Parser)]
#[command(name = "numaio")]
pub struct RunInvocation {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    command: RunSubcommand,
}

#[derive(Debug, Subcommand)]
enum RunSubcommand {
    Run(crate::commands::run::RunArgs),
}

impl RunInvocation {
    /// Returns a valid `numaio run` command line; [`Args`] reports errors in others.
    pub fn from_command_line() -> Option<Self> {
        std::env::args_os().nth(1).filter(|command| command == "run")?;
        Self::try_parse().ok()
    }

    /// Returns the options of `numaio run`.
    pub fn run(&self) -> &crate::commands::run::RunArgs {
        let RunSubcommand::Run(args) = &self.command;
        args
    }
}

const AFTER_HELP: &str = "\
Examples:
  numaio topology                          show this machine
  numaio model                             measure and model the nodes that have devices
  numaio model --device nvme0n1            the node of one device
  numaio model --machine amd-dl585-g7 --classes paper
                                           the recorded machine of the paper, on any laptop

Exit status: 0 success; 1 failure; 2 wrong usage; 130 interrupted (completed measurements are kept).";

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

/// The commands. One without a doc comment here has it at its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show nodes, CPUs, memory, distances and devices, and what is misconfigured
    Topology(TopologyArgs),
    /// Measure bandwidth between nodes, and classify nodes per target and direction
    Model(ModelArgs),
    /// Measure STREAM between all pairs of nodes
    Stream(crate::commands::stream::StreamArgs),
    /// Measure latency between all pairs of nodes, idle and under load
    Latency(crate::commands::latency::LatencyArgs),
    /// Measure I/O of a device from every node
    Bench(crate::commands::bench::BenchArgs),
    Copy(crate::commands::copy::CopyArgs),
    Jobs(crate::commands::jobs::JobsArgs),
    Serve(crate::commands::serve::ServeArgs),
    Keygen(crate::commands::keygen::KeygenArgs),
    /// Run the remote side of a transfer (internal)
    #[command(hide = true)]
    Peer(crate::commands::copy::peer::PeerArgs),
    /// Record this machine and its measurements in one file, to replay elsewhere
    Record(RecordArgs),
    /// Compare hop distance, latency, STREAM and the copy model of a target
    Compare(crate::commands::compare::CompareArgs),
    /// Show how well the copy model predicts measured I/O, by class
    Validate(crate::commands::validate::ValidateArgs),
    /// Predict the bandwidth of concurrent streams from several nodes to a device
    Predict(crate::commands::predict::PredictArgs),
    /// Export measurements to hwloc and to the kernel's weighted interleave
    Export(crate::commands::export::ExportArgs),
    Near(crate::commands::near::ResolveArgs),
    /// Write a report of saved documents of one or several machines
    Report(crate::commands::report::ReportArgs),
    /// Show where tasks that use a device should run, and why
    Place(crate::commands::place::PlaceArgs),
    /// Run a program near its device, with CPU affinity and memory policy set
    ///
    /// With --tasks or --verify numaio waits for the programs and forwards signals to them. A
    /// signal sent to the process group or the systemd unit therefore arrives twice: use
    /// `timeout --foreground`, and KillMode=mixed in a unit.
    Run(crate::commands::run::RunArgs),
    /// Show on which nodes programs run, and which are remote to their devices
    ///
    /// Exit status: 1 if a named process does not exist or cannot be inspected.
    Status(crate::commands::status::StatusArgs),
    /// Plan a transfer: optimal threads and bytes on each node
    Plan(crate::commands::plan::PlanArgs),
    Doctor(crate::commands::doctor::DoctorArgs),
    /// Show, plan and set the CPUs that serve devices: interrupts, RPS, RFS, XPS
    Irq(crate::commands::irq::IrqArgs),
    Undo(crate::commands::undo::UndoArgs),
    Generate(crate::commands::generate::GenerateArgs),
}

/// Arguments of `numaio topology`.
#[derive(Debug, ClapArgs)]
pub struct TopologyArgs {
    /// Print JSON
    #[arg(long, conflicts_with = "svg")]
    pub json: bool,
    /// Draw the machine as SVG to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Arguments of `numaio model`.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Classes and output")]
pub struct ModelArgs {
    /// Rule that groups nodes into classes
    ///
    /// measured: the fewest groups whose members are all within the level of the group's best.
    /// paper: class 1 is the target and its package, the rest as measured (Li et al.).
    /// kmeans: exact k-means, K from 2 to the square root of half the nodes (Cbench).
    #[arg(long, value_name = "RULE", default_value = "measured", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: String,
    /// Maximum distance of a class's members below its best, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent, allow_negative_numbers = true)]
    pub level: f64,
    /// Output format; listing is the paper's
    #[arg(long, value_name = "FORM", default_value = "table")]
    pub format: Format,
    /// Print the saved document as JSON; same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Classify a saved model again, without measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING)]
    pub from: Option<PathBuf>,
    /// Show visits, confidence interval and drift of every value
    #[arg(long, conflicts_with_all = ["json", "format"])]
    pub stats: bool,
    /// Do not save the model
    #[arg(long)]
    pub no_save: bool,
    #[command(flatten)]
    pub targets: TargetArgs,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Options without effect with `--from`.
const MEASURING: [&str; 14] = [
    "machine",
    "sysroot",
    "node",
    "device",
    "all",
    "direction",
    "threads",
    "hyper_threads",
    "copy_loop",
    "hugepages",
    "precision",
    "time_limit",
    "repetitions",
    "pause_balancing",
];

/// Output format of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Listing,
    Json,
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

/// Arguments of `numaio record`.
#[derive(Debug, ClapArgs)]
pub struct RecordArgs {
    /// Tape file to write
    #[arg(long, short, value_name = "TAPE")]
    pub output: PathBuf,
    /// Note for users of the tape, such as that the machine is emulated
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// Name of the machine [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Record the topology only, without measuring
    #[arg(long)]
    pub no_measure: bool,
    /// Record copies only, without STREAM and latency
    #[arg(long)]
    pub no_baselines: bool,
    /// Also record what `numaio near` needs to resolve this handle; repeatable
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// Also record the I/O of this bench, such as "disk --file /data", for `numaio bench`, validate
    /// and predict with the tape; repeatable
    #[arg(long, value_name = "BENCH", value_parser = crate::commands::bench::parse_line)]
    pub bench: Vec<crate::commands::bench::BenchCommand>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
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

/// Parses a number of seconds above 0.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number of seconds above 0".to_owned())
}

impl ModelArgs {
    /// Returns the class rule.
    pub fn rule(&self) -> ClassRule {
        // clap admits only the names of rules.
        self.classes.parse().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a function with the words of each command.
    fn each_command(
        command: &clap::Command,
        words: &[String],
        visit: &mut impl FnMut(&[String], &clap::Command),
    ) {
        visit(words, command);
        for below in command.get_subcommands() {
            each_command(below, &[words, &[below.get_name().to_owned()]].concat(), visit);
        }
    }

    #[test]
    fn value_errors_never_quote_the_standard_library() {
        const RAW: [&str; 5] =
            ["invalid digit", "float literal", "cannot parse", "invalid IP address", "invalid socket"];
        let (root, mut found) = (Args::command(), Vec::<String>::new());
        each_command(&root, &["numaio".to_owned()], &mut |words, command| {
            let options = command.get_arguments().filter_map(|arg| arg.get_long());
            let given =
                options.map(|long| vec![format!("--{long}=\u{a7}")]).chain([vec!["\u{a7}".to_owned()]]);
            for argument in given {
                let words = [words, &argument[..]].concat();
                let Err(error) = root.clone().try_get_matches_from(&words) else { continue };
                let error = error.to_string();
                if RAW.iter().any(|raw| error.contains(raw)) {
                    found.push(error);
                }
            }
        });
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn repeated_verbose_and_quiet_options_are_accepted() {
        let verbose = |line: &str| {
            let matches = Args::command().try_get_matches_from(line.split(' ')).expect("options");
            let common = Args::from_arg_matches(&matches).expect("options").common;
            (common.verbose, common.quiet)
        };
        assert_eq!(verbose("numaio copy -avv a b"), (true, false));
        assert_eq!(verbose("numaio copy -qv a b"), (true, false));
        assert_eq!(verbose("numaio topology -v -q"), (false, true));
    }
}
