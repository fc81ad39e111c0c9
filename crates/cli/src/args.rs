//! The command line: the tree of all commands.

use crate::commands::{self, copy};
use crate::failure::Failure;
use crate::options::{Common, Invocation};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use numaio_transfer::remote::host_to_host;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

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
        let mut words: Vec<OsString> = std::env::args_os().collect();
        // Another host cannot pass more arguments than one string of a command line holds.
        if words.get(1..) == Some(&host_to_host::arguments_from_stdin()[..]) {
            words.truncate(2);
            words.extend(host_to_host::read_arguments().unwrap_or_default());
        }
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

    /// Runs the requested command.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let common = &self.common;
        match &self.command {
            Command::Topology(args) => commands::topology::run(common, args),
            Command::Model(args) => commands::model::run(common, args),
            Command::Stream(args) => commands::stream::run(common, args),
            Command::Latency(args) => commands::latency::run(common, args),
            Command::Sweep(args) => commands::sweep::run(common, args),
            Command::Counters(args) => commands::counters::run(common, args),
            Command::Cost(args) => commands::cost::run(common, args),
            Command::Bench(args) => commands::bench::run(common, args),
            Command::Copy(args) => commands::copy::run(common, args),
            Command::Jobs(args) => commands::jobs::run(common, args),
            Command::Serve(args) => commands::serve::run(common, args),
            Command::Keygen(args) => commands::keygen::run(common, args),
            Command::Peer(_) => commands::peer::run(),
            Command::Config(args) => commands::config::run(args),
            Command::Record(args) => commands::record::run(common, args),
            Command::Compare(args) => commands::compare::run(common, args),
            Command::Validate(args) => commands::validate::run(common, args),
            Command::Predict(args) => commands::predict::run(common, args),
            Command::Export(args) => commands::export::run(common, args),
            Command::Report(args) => commands::report::run(common, args),
            Command::Place(args) => commands::place::run(common, args),
            Command::Run(args) => commands::run::run(common, args),
            Command::Near(args) => commands::near::run(common, args),
            Command::Devices(args) => commands::devices::run(common, args),
            Command::Status(args) => commands::status::run(common, args),
            Command::Top(args) => commands::top::run(common, args),
            Command::Plan(args) => commands::plan::run(common, args),
            Command::Doctor(args) => commands::doctor::run(common, args),
            Command::Metrics(args) => commands::metrics::run(common, args),
            Command::Irq(args) => commands::irq::run(common, args),
            Command::Balance(args) => commands::balance::run(common, args),
            Command::Undo(args) => commands::undo::run(common, args),
            Command::Vm(args) => commands::vm::run(common, args),
            Command::Fleet(args) => commands::fleet::run(common, args, Self::parse_words),
            Command::Generate(args) => commands::generate::run(args, Self::command()),
        }
    }

    /// Parses the words after `numaio`, which are to run on another host; returns common options.
    fn parse_words(words: &[String]) -> Result<Common, String> {
        let words: Vec<OsString> =
            ["numaio"].into_iter().chain(words.iter().map(String::as_str)).map(OsString::from).collect();
        let matches = parse(Self::command(), &words).map_err(|error| error.to_string())?;
        Self::from_arg_matches(&matches).map(|args| args.common).map_err(|error| error.to_string())
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
        if let Some(tip) = copy::scp_tip(words) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
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

/// `numaio run` alone, which is parsed without building the options of all commands.
#[derive(Debug, Subcommand)]
pub enum RunOnly {
    Run(commands::run::RunArgs),
}

/// Returns a valid `numaio run` command line; [`Args`] reports errors in others.
pub fn run_only() -> Option<Invocation<RunOnly>> {
    std::env::args_os().nth(1).filter(|command| command == "run")?;
    Invocation::try_parse().ok()
}

/// Returns the common options of a command line without a command, for an overview: on a terminal,
/// where a person reads it. Elsewhere it is an error of a script.
pub fn nothing_requested() -> Option<Common> {
    #[derive(Debug, Parser)]
    struct NoCommand {
        #[command(flatten)]
        common: Common,
    }
    let is_read = std::env::args_os().nth(1).is_none() && std::io::stdout().is_terminal();
    if !is_read {
        return None;
    }
    NoCommand::try_parse().ok().map(|parsed| parsed.common)
}

/// Returns whether the command line only requests help or the version.
pub fn requests_help() -> bool {
    std::env::args_os().any(|word| ["--help", "--version"].iter().any(|option| word == *option))
}

const AFTER_HELP: &str = "\
Examples:
  numaio topology                          show this machine
  numaio model                             measure and model the nodes that have devices
  numaio model --device nvme0n1            the node of one device
  numaio model --machine amd-dl585-g7 --classes paper
                                           the recorded machine of the paper, on any laptop

Exit status: 0 success; 1 failure; 2 wrong usage; 130 interrupted (completed measurements are kept).";

/// The commands. One without a doc comment here has it at its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show nodes, CPUs, memory, distances and devices, and what is misconfigured
    Topology(commands::topology::TopologyArgs),
    /// Measure bandwidth between nodes, and classify nodes per target and direction
    Model(commands::model::ModelArgs),
    /// Measure STREAM between all pairs of nodes
    Stream(commands::stream::StreamArgs),
    /// Measure latency between all pairs of nodes, idle and under load
    Latency(commands::latency::LatencyArgs),
    Sweep(Box<commands::sweep::SweepArgs>),
    Counters(Box<commands::counters::CountersArgs>),
    Cost(commands::cost::CostArgs),
    /// Measure I/O of a device from every node
    Bench(Box<commands::bench::BenchArgs>),
    Copy(Box<commands::copy::CopyArgs>),
    Jobs(commands::jobs::JobsArgs),
    Serve(commands::serve::ServeArgs),
    Keygen(commands::keygen::KeygenArgs),
    /// Run the remote side of a transfer (internal)
    #[command(hide = true)]
    Peer(commands::peer::PeerArgs),
    /// Record this machine and its measurements in one file, to replay elsewhere
    Record(commands::record::RecordArgs),
    /// Compare hop distance, latency, STREAM and the copy model of a target
    Compare(commands::compare::CompareArgs),
    /// Show how well the copy model predicts measured I/O, by class
    Validate(commands::validate::ValidateArgs),
    /// Predict the bandwidth of concurrent streams from several nodes to a device
    Predict(commands::predict::PredictArgs),
    /// Export measurements to hwloc and to the kernel's weighted interleave
    Export(commands::export::ExportArgs),
    Fleet(commands::fleet::FleetArgs),
    Near(commands::near::ResolveArgs),
    Devices(commands::devices::DevicesArgs),
    /// Write a report of saved documents of one or several machines
    Report(commands::report::ReportArgs),
    /// Show where tasks that use a device should run, and why
    Place(commands::place::PlaceArgs),
    /// Run a program near its device, with CPU affinity and memory policy set
    ///
    /// With --tasks or --verify numaio waits for the programs and forwards signals to them. A
    /// signal sent to the process group or the systemd unit therefore arrives twice: use
    /// `timeout --foreground`, and KillMode=mixed in a unit.
    Run(commands::run::RunArgs),
    /// Show on which nodes programs run, and which are remote to their devices
    ///
    /// Exit status: 1 if a named process does not exist or cannot be inspected.
    Status(commands::status::StatusArgs),
    Top(commands::top::TopArgs),
    /// Plan a transfer: optimal threads and bytes on each node
    Plan(commands::plan::PlanArgs),
    Doctor(commands::doctor::DoctorArgs),
    Metrics(commands::metrics::MetricsArgs),
    /// Show, plan and set the CPUs that serve devices: interrupts, RPS, RFS, XPS
    Irq(commands::irq::IrqArgs),
    Balance(commands::balance::BalanceArgs),
    Undo(commands::undo::UndoArgs),
    Vm(commands::vm::VmArgs),
    Config(commands::config::ConfigArgs),
    Generate(commands::generate::GenerateArgs),
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
