//! `numaio sweep`: any program, bound to each pair of CPUs and memory node.

use super::matrix::MatrixArgs;
use super::measuring::{self, MeasuredMachine};
use crate::balancing::pause;
use crate::failure::{self, Failure};
use crate::options::{run_limit, Common, Invocation, StopArgs};
use crate::output::json;
use crate::store::Kind;
use crate::{input, output};
use clap::{Args, Parser, Subcommand};
use numaio_machine::discover::discover;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_machine::units::bytes_per_s_of_unit;
use numaio_measure::sweep::Figure;
use numaio_measure::SweepOptions;
use numaio_model::{sweep_classes, sweep_views, ClassOptions};
use numaio_report::TextStyle;
use numaio_schema::{ClassRule, FigureSource, Quantity, SweepRecord, SweepScope, View};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure a program on all pairs of CPUs and memory node, and classify the pairs
///
/// Each run is bound to the CPUs of one node, and strictly to the memory of one node; the
/// program's children are bound, too. The figure is a number in its output, or its wall time.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Program", after_help = AFTER_HELP)]
pub struct SweepArgs {
    /// Bind the program to all CPUs of a node (default)
    #[arg(long, conflicts_with = "cores")]
    pub pairs: bool,
    /// Bind the program to one core at a time
    #[arg(long)]
    pub cores: bool,
    /// Figure: the number in the only group of a regular expression, which must match the output
    /// once; default: the wall time
    ///
    /// Standard output is searched first, then standard error. (?s).*REGEX takes the last of
    /// several matches.
    #[arg(long, value_name = "REGEX", group = "source", value_parser = pattern)]
    pub figure: Option<Figure>,
    /// Figure: the number at this JSON Pointer in the output, such as /jobs/0/read/bw
    #[arg(long, value_name = "POINTER", group = "source", value_parser = pointer)]
    pub json_path: Option<Figure>,
    /// Unit of the figure, such as MB/s, GFLOP/s or ms
    ///
    /// Figures in units of bytes or bits per second become bandwidths, comparable with others. A
    /// unit of time implies --less-is-better.
    #[arg(long, value_name = "UNIT", requires = "source")]
    pub figure_unit: Option<String>,
    /// Lower figures are better
    #[arg(long, requires = "source")]
    pub less_is_better: bool,
    /// Another build of the program, with its arguments in one word; each pair gets the figure of
    /// its best build; may be repeated
    #[arg(long, value_name = "COMMAND", value_parser = build)]
    pub best_of: Vec<Build>,
    /// Name of the sweep in views and tables; default: the name of the program
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Time limit of one run, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = run_limit, allow_negative_numbers = true)]
    pub run_limit: f64,
    /// Rule that groups the pairs into classes
    ///
    /// measured: the fewest groups whose members are all within --level of the group's best.
    /// paper: class 1 is memory of the own package, the rest as measured.
    /// kmeans: exact k-means, K from 2 to the square root of half the pairs (Cbench).
    #[arg(long, value_name = "RULE", default_value = "measured", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: String,
    /// Classify a saved sweep again, without measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING)]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub matrix: MatrixArgs,
    #[command(flatten)]
    pub stop: StopArgs,
    /// Program and its arguments
    #[arg(
        required_unless_present = "from",
        trailing_var_arg = true,
        value_name = "COMMAND",
        help_heading = "Program"
    )]
    pub command: Vec<String>,
}

/// Options without effect with `--from`.
const MEASURING: [&str; 18] = [
    "machine",
    "sysroot",
    "pairs",
    "cores",
    "figure",
    "json_path",
    "figure_unit",
    "less_is_better",
    "best_of",
    "name",
    "run_limit",
    "node",
    "device",
    "all",
    "no_save",
    "precision",
    "time_limit",
    "command",
];

const AFTER_HELP: &str = "\
Examples:
  numaio sweep --figure 'Triad: +([0-9.]+)' --figure-unit MB/s -- ./stream
  numaio sweep --cores --classes kmeans --figure 'Copy: +([0-9.]+)' -- ./stream
  numaio sweep --best-of './hpl.icc -q' -- ./hpl.gcc -q      wall time of the better build

Exit status: 0 success; 1 nothing was measured; 2 wrong usage; 127 the program does not exist;
130 interrupted (complete figures are kept).";

/// The command of a build.
#[derive(Debug, Clone)]
pub struct Build(Vec<String>);

#[derive(Debug, Subcommand)]
enum SweepOnly {
    Sweep(SweepArgs),
}

/// Parses a sweep from a text with quotes, as a shell does: `--cores -- ./stream`.
///
/// # Errors
/// An error of clap, or not a measurement.
pub fn parse_line(text: &str) -> Result<SweepArgs, String> {
    let words = shlex::split(text).ok_or("a quote is not closed")?;
    let words = ["numaio", "sweep"].into_iter().map(str::to_owned).chain(words);
    let invocation = Invocation::<SweepOnly>::try_parse_from(words).map_err(|error| error.to_string())?;
    let SweepOnly::Sweep(args) = invocation.command;
    match args.from {
        Some(_) => Err("--from is not a measurement".to_owned()),
        None => Ok(args),
    }
}

/// Runs `numaio sweep`.
pub fn run(common: &Common, args: &SweepArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.from {
        let record = read(path)?;
        let classes = sweep_classes(&record, class_options(args));
        print(common, args, &SweepRecord { classes, ..record }, &[], &NodeSet::new())?;
        return Ok(ExitCode::SUCCESS);
    }
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let options = options(args, &topology, machine.time())?;
    let targets = args.matrix.targets(&topology, &options.around);
    let setting = MeasuredMachine::idle(&machine, &topology);
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::should_save(&machine, args.matrix.no_save, Kind::Sweep, fingerprint)?;
    let paused = pause(common, args.stop.pause_balancing, &machine, fingerprint)?;
    let measured = measuring::measure_sweep(common, setting, machine.time(), &options, class_options(args));
    let record = measured.map_err(|failure| match machine.is_live() {
        true => failure,
        false => failure.hint(
            "a tape contains only the sweeps that numaio record --sweep recorded, with the same command and binding",
        ),
    })?;
    drop(paused);
    let saved = keep.then(|| measuring::save(common, Kind::Sweep, &record.provenance, &record, &topology));
    let views = args.matrix.views(&topology, |subject| sweep_views(&record, subject));
    print(common, args, &record, &views, &targets)?;
    measuring::exit(saved)
}

/// Returns the rule of the classes.
pub fn class_options(args: &SweepArgs) -> ClassOptions {
    // clap admits only the names of rules.
    let classes: ClassRule = args.classes.parse().unwrap_or_default();
    ClassOptions { classes, level: args.matrix.level }
}

/// Returns the options of the campaign.
///
/// # Errors
/// Options that contradict each other, or an unknown device.
pub fn options(args: &SweepArgs, topology: &Topology, seed: u64) -> Result<SweepOptions, Failure> {
    let (figure, unit) = match args.figure.as_ref().or(args.json_path.as_ref()) {
        Some(figure) => (figure.clone(), args.figure_unit.clone().unwrap_or_default()),
        None => (Figure::new(FigureSource::WallTime).map_err(Failure::usage)?, "s".to_owned()),
    };
    let less = args.less_is_better || TIMES.contains(&unit.as_str());
    let (quantity, scale) = match (bytes_per_s_of_unit(&unit), less) {
        (Some(_), true) => {
            let message = format!("--less-is-better cannot be combined with --figure-unit {unit}");
            return Err(Failure::usage(message).hint("omit --figure-unit, or name another unit"));
        }
        (Some(scale), false) => (Quantity::BytesPerS, scale),
        (None, true) => (Quantity::Cost, 1.0),
        (None, false) => (Quantity::Score, 1.0),
    };
    let builds = [args.command.clone()].into_iter().chain(args.best_of.iter().map(|build| build.0.clone()));
    Ok(SweepOptions {
        name: args.name.clone().unwrap_or_else(|| default_name(&args.command)),
        builds: builds.collect(),
        figure,
        quantity,
        unit,
        scale,
        scope: if args.cores { SweepScope::Cores } else { SweepScope::Pairs },
        around: args.matrix.around(topology)?,
        run_limit_s: args.run_limit,
        rule: measuring::rule(&args.stop, seed),
    })
}

/// Units of time, in which less is better.
const TIMES: [&str; 6] = ["s", "ms", "us", "µs", "ns", "min"];

/// Returns the file name of the program.
fn default_name(command: &[String]) -> String {
    let program = command.first().map_or("", String::as_str);
    let file = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    file.unwrap_or_else(|| program.to_owned())
}

fn read(path: &Path) -> Result<SweepRecord, Failure> {
    let text = input::read_text(path)?;
    SweepRecord::from_json(&text).map_err(|error| {
        let failure = failure::not_a_document(path, &text, &error);
        match error {
            numaio_schema::DocumentError::WrongKind { .. } => {
                failure.hint("numaio sweep --json writes sweeps")
            }
            _ => failure,
        }
    })
}

fn print(
    common: &Common,
    args: &SweepArgs,
    record: &SweepRecord,
    views: &[View],
    targets: &NodeSet,
) -> Result<(), Failure> {
    let style = TextStyle { stats: args.matrix.stats, ..output::style(common) };
    output::print(&match args.matrix.json {
        true => json(record)?,
        false => numaio_report::sweep_text(record, views, targets, &style),
    })
}

fn pattern(text: &str) -> Result<Figure, String> {
    Figure::new(FigureSource::Regex { pattern: text.to_owned() }).map_err(|error| error.to_string())
}

fn pointer(text: &str) -> Result<Figure, String> {
    Figure::new(FigureSource::Json { pointer: text.to_owned() }).map_err(|error| error.to_string())
}

fn build(text: &str) -> Result<Build, String> {
    let words = shlex::split(text).ok_or("a quote is not closed")?;
    match words.is_empty() {
        true => Err("expected a command".to_owned()),
        false => Ok(Build(words)),
    }
}

fn name(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_alphanumeric) {
        true => Ok(text.to_owned()),
        false => Err("expected a name with a letter or digit".to_owned()),
    }
}
