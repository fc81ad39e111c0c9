//! What was typed.

use crate::commands::copy;
use clap::error::ErrorKind;
use clap::{ArgAction, Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::{CopyLoop, Direction};
use numaio_schema::ClassRule;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// See, measure and model the I/O bandwidth of NUMA machines.
///
/// Where a program runs and where its buffers lie decides whether it gets the bandwidth of a device or half
/// of it, and it differs by direction. numaio measures that without the device: threads on the device's node
/// copy between nodes as its DMA engine would (Li et al., ICPP 2013).
#[derive(Debug, Parser)]
#[command(name = "numaio", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// What was typed. `numaio copy -h` asks for help; with anything else -h is what rsync means by it, so that a script that moves
    /// files moves them.
    pub fn from_command_line() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        let mut command = Self::command();
        if matches!(&words[..], [_, copy, h] if copy == "copy" && h == "-h") {
            let help =
                |copy: clap::Command| copy.mut_arg("human_readable", |arg| arg.action(ArgAction::HelpShort));
            command = command.mut_subcommand("copy", help);
        }
        let matches = command
            .try_get_matches_from(&words)
            .unwrap_or_else(|error| Self::explain_parse_error(error, &words).exit());
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Self::command()).exit())
    }

    /// Why words were refused; of an option of rsync that `numaio copy` has not, with what to do instead.
    fn explain_parse_error(error: clap::Error, words: &[OsString]) -> clap::Error {
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

/// `numaio run` and its options alone. Those of all commands take longer to make than the kernel takes to start a program,
/// and that program waits.
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
    /// What was typed, if it is that; whatever is wrong with it is for [`Args`] to say.
    pub fn from_command_line() -> Option<Self> {
        std::env::args_os().nth(1).filter(|command| command == "run")?;
        Self::try_parse().ok()
    }

    /// The options.
    pub fn run(&self) -> &crate::commands::run::RunArgs {
        let RunSubcommand::Run(args) = &self.command;
        args
    }
}

const AFTER_HELP: &str = "\
Examples:
  numaio topology                          see this machine
  numaio model                             measure and model the nodes that have devices
  numaio model --device nvme0n1            the node of one device
  numaio model --machine amd-dl585-g7 --classes paper
                                           the machine of the paper, recorded, on any laptop

Exit status: 0 done; 1 failed; 2 wrong usage; 130 interrupted (what was measured is kept).";

/// Options of every command.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Common")]
pub struct Common {
    /// A recorded machine: a tape, or one of amd-dl585-g7, intel-r820, amd-2p (all emulated)
    #[arg(long, global = true, value_name = "NAME|TAPE", conflicts_with = "sysroot")]
    pub machine: Option<String>,
    /// Topology from a copied /sys and /proc tree below DIR
    #[arg(long, global = true, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// No progress and no remarks on standard error; errors only
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Colour: auto is on a terminal and without NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Unit of bandwidth: GB/s, GiB/s or Gbit/s
    #[arg(long, global = true, value_name = "UNIT", default_value = "GB/s")]
    pub unit: BandwidthUnit,
}

impl Common {
    /// For what is asked for by a part of numaio, and not by a user: nothing is remarked.
    pub fn silent() -> Self {
        let unit = BandwidthUnit::default();
        Self { machine: None, sysroot: None, quiet: true, color: Color::Never, unit }
    }
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// What is said of one here is all that its help says; of those without a word their arguments say more.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show nodes, CPUs, memory, distances, devices and where they hang; what looks wrong
    Topology(TopologyArgs),
    /// Measure the bandwidth between nodes and class them per target and direction
    Model(ModelArgs),
    /// Measure STREAM between every two nodes
    Stream(crate::commands::stream::StreamArgs),
    /// Measure latency between every two nodes, idle and under load
    Latency(crate::commands::latency::LatencyArgs),
    /// Measure real I/O of a device from every node
    Bench(crate::commands::bench::BenchArgs),
    Copy(crate::commands::copy::CopyArgs),
    Jobs(crate::commands::jobs::JobsArgs),
    Serve(crate::commands::serve::ServeArgs),
    Keygen(crate::commands::keygen::KeygenArgs),
    /// Be the side of a transfer on another host
    #[command(hide = true)]
    Peer(crate::commands::copy::peer::PeerArgs),
    /// Record this machine and every measurement in one file, to replay elsewhere
    Record(RecordArgs),
    /// Compare hop distance, latency, STREAM and the copy model of one target
    Compare(crate::commands::compare::CompareArgs),
    /// Show how well the copy model foretells measured I/O, class by class
    Validate(crate::commands::validate::ValidateArgs),
    /// Predict what streams of several nodes get from a device together
    Predict(crate::commands::predict::PredictArgs),
    /// Give what was measured to other programs: hwloc, and the kernel's weighted interleave
    Export(crate::commands::export::ExportArgs),
    Near(crate::commands::near::ResolveArgs),
    /// Write a report of saved documents, of one machine or several, to hand around
    Report(crate::commands::report::ReportArgs),
    /// Show where tasks should run that use a device, and why
    Place(crate::commands::place::PlaceArgs),
    /// Run a program near its device: CPU affinity and memory policy are set before it starts
    ///
    /// With --tasks and --verify numaio stays, and passes on to the programs what signals are sent to it. Whoever sends a signal to all of a group
    /// or unit reaches them twice: use timeout --foreground, and KillMode=mixed in a unit of systemd.
    Run(crate::commands::run::RunArgs),
    /// Show where running programs are, and which are remote to their devices
    ///
    /// Exit status: 1 if one that was named is not there, or cannot be seen.
    Status(crate::commands::status::StatusArgs),
    /// Plan a transfer: threads and bytes on each node, proven best
    Plan(crate::commands::plan::PlanArgs),
    Doctor(crate::commands::doctor::DoctorArgs),
    /// Show, plan and set which CPUs serve devices: interrupts, RPS, RFS, XPS
    Irq(crate::commands::irq::IrqArgs),
    Undo(crate::commands::undo::UndoArgs),
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

#[derive(Debug, ClapArgs)]
pub struct TopologyArgs {
    /// Print JSON
    #[arg(long, conflicts_with = "svg")]
    pub json: bool,
    /// Draw the machine into FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Classes and output")]
pub struct ModelArgs {
    /// How nodes are put into classes
    ///
    /// measured: the fewest groups in which nobody is more than the level below the group's best. paper:
    /// class 1 is the target and its package, the rest as measured (Li et al.). kmeans: exact k-means, K from
    /// 2 to the root of half the nodes (Cbench).
    #[arg(long, value_name = "RULE", default_value = "measured", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: String,
    /// How far below a class's best its members may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent, allow_negative_numbers = true)]
    pub level: f64,
    /// Form of the output; listing is that of the paper
    #[arg(long, value_name = "FORM", default_value = "table")]
    pub format: Format,
    /// Print JSON: what is saved; the same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Class a saved model anew and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING)]
    pub from: Option<PathBuf>,
    /// Show number of visits, interval and drift of every figure
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

/// What says nothing with `--from`.
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

/// Form of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Listing,
    Json,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Targets")]
pub struct TargetArgs {
    /// Target node; may be given several times
    #[arg(long, short = 'k', value_name = "K", value_parser = node, allow_negative_numbers = true)]
    pub node: Vec<NodeId>,
    /// Target is the node of this device, by name or PCI address: eth0, nvme0n1, mlx5_0, 0000:3b:00.0 or 3b:00.0; may be given
    /// several times
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// Every node with CPUs; the default is nodes with devices
    #[arg(long, short, conflicts_with_all = ["node", "device"])]
    pub all: bool,
    /// Direction, named from the device
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
    pub fn list(self) -> Vec<Direction> {
        match self {
            Self::Write => vec![Direction::Write],
            Self::Read => vec![Direction::Read],
            Self::Both => vec![Direction::Write, Direction::Read],
        }
    }

    /// The only direction; none if it is both.
    pub fn one(self) -> Option<Direction> {
        match self {
            Self::Write => Some(Direction::Write),
            Self::Read => Some(Direction::Read),
            Self::Both => None,
        }
    }
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArgs {
    /// Threads on the target; without it one on each core
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub threads: Option<u32>,
    /// One thread on each hardware thread
    #[arg(long, conflicts_with = "threads")]
    pub hyper_threads: bool,
    /// Copy loop: memcpy, avx512, avx2, stnp or rep-movsb; without it the fastest here
    #[arg(long, value_name = "LOOP", value_parser = copy_loop)]
    pub copy_loop: Option<CopyLoop>,
    /// Fixed repetitions of every copy, as in the paper (there 100), in place of --precision
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, conflicts_with = "precision")]
    pub repetitions: Option<u32>,
    #[command(flatten)]
    pub rounds: RoundsArgs,
}

/// What every measurement in rounds can be told.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Measuring")]
pub struct RoundsArgs {
    /// Use reserved huge pages in place of transparent ones
    #[arg(long)]
    pub hugepages: bool,
    /// Measure until the 95 % interval of each median is within this, in percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent, allow_negative_numbers = true)]
    pub precision: f64,
    /// Time to spend on the machine, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit: f64,
    /// Switch automatic NUMA balancing off meanwhile, and back on after (needs root)
    #[arg(long)]
    pub pause_balancing: bool,
    /// Seed of the order of visits; without it the time
    #[arg(long, value_name = "N", hide = true)]
    pub seed: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub struct RecordArgs {
    /// The tape to write
    #[arg(long, short, value_name = "TAPE")]
    pub output: PathBuf,
    /// What people must know of this machine, as that it is emulated
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// Name of the machine; without it the host name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Record what the machine is and measure nothing
    #[arg(long)]
    pub no_measure: bool,
    /// Record copies alone, without STREAM and latency
    #[arg(long)]
    pub no_baselines: bool,
    /// Record also what numaio near needs to resolve this handle; may be given several times
    #[arg(long, value_name = "HANDLE")]
    pub near: Vec<Handle>,
    /// Record also the I/O that this bench measures, as "disk --file /data", for numaio bench, validate and predict on
    /// the tape; may be given several times
    #[arg(long, value_name = "BENCH", value_parser = crate::commands::bench::parse_line)]
    pub bench: Vec<crate::commands::bench::BenchCommand>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

#[derive(Debug, ClapArgs)]
pub struct GenerateArgs {
    /// What to write
    pub what: Generated,
    /// The folder to write into
    pub dir: PathBuf,
}

/// What can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    Man,
    Completions,
}

pub fn node(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| format!("{text:?} is no node; nodes are numbers as 0 or 7"))
}

fn copy_loop(text: &str) -> Result<CopyLoop, String> {
    let names = CopyLoop::ALL.map(CopyLoop::name).join(", ");
    let found = CopyLoop::ALL.into_iter().find(|copy_loop| copy_loop.name() == text);
    found.ok_or_else(|| format!("{text:?} is no copy loop; there are {names}"))
}

/// A share from a percentage, above 0 and below 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let number = number.filter(|number| *number > 0.0 && *number < 100.0);
    number.map(|number| number / 100.0).ok_or_else(|| format!("{text:?} is no percentage between 0 and 100"))
}

pub fn count(text: &str) -> Result<u32, String> {
    integer(1..=10_000)(text)
}

/// Takes whole numbers of a range.
pub fn integer(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{text:?} is no whole number from {} to {}", range.start(), range.end()))
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| format!("{text:?} is no number of seconds above 0"))
}

impl ModelArgs {
    pub fn rule(&self) -> ClassRule {
        // clap admits only the names of rules.
        self.classes.parse().unwrap_or_default()
    }
}
