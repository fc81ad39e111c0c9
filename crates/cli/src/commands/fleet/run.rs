//! `numaio fleet run`: measures each host of a fleet.

use super::host_report::machine_options;
use super::run_options::{slurm_time, LauncherChoice, LimitScope, ReturnChoice};
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::now;
use crate::options::{integer, Common};
use crate::output::json;
use crate::{input, output};
use clap::Args;
use numaio_fleet::launch::foreground::{run_hosts, HostLauncher};
use numaio_fleet::launch::host_report::{with_json, COMMANDS};
use numaio_fleet::launch::run_directory::{default_base, new_id, RunDirectory};
use numaio_fleet::launch::status::{status, RunJobs};
use numaio_fleet::launch::stored_run::{AT_ONCE, MAX_AT_ONCE};
use numaio_fleet::launch::{hosts, slurm, ssh, LaunchError};
use numaio_linux::interrupt;
use numaio_schema::{FleetLauncher, FleetRun, FleetRunHost, ReportReturn, SlurmLaunch, FLEET_RUN_SCHEMA};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

/// Parses a command line of numaio, and returns its common options or the error of the parser.
pub type ParseCommand = fn(&[String]) -> Result<Common, String>;

/// Processes of ssh or srun at the same time by default.
const DEFAULT_AT_ONCE: u32 = 32;
/// How long a job of srun may wait for its node.
const QUEUE_TIME: Duration = Duration::from_secs(24 * 3600);
/// Time for ssh to connect and to return a report, in addition to that on the host.
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Run a command of numaio on each host of a fleet, through Slurm or ssh
///
/// Each host writes one report: its topology, settings, the findings of numaio doctor, and the
/// documents of the command. Without a command, hosts report only the former. Reports are in
/// directory hosts of the run; numaio fleet add reads them.
///
/// With Slurm, each host is one job with the node for itself, and the command returns after it has
/// submitted the jobs. With ssh and with --return output, it returns after the last host.
///
/// Exit status with ssh and --return output: 0 if all hosts were measured, 1 if not, 130
/// interrupted.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    /// How to reach the hosts
    #[arg(long, value_name = "LAUNCHER")]
    pub on: LauncherChoice,
    /// Slurm: partition [default: Slurm's default partition]
    #[arg(long, short, value_name = "NAME")]
    pub partition: Option<String>,
    /// Slurm: measure these nodes, such as n[1-4,7] [default: all nodes of the partition]
    #[arg(long, short = 'w', value_name = "NODES")]
    pub nodelist: Option<String>,
    /// Slurm: measure N of the nodes, idle ones first
    #[arg(long, short = 'N', value_name = "N", value_parser = integer(1..=100_000))]
    pub nodes: Option<u32>,
    /// ssh: file with a host on each line (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Measure at most N hosts at the same time [default: 32 with ssh and --return output]
    #[arg(long, value_name = "N", value_parser = integer(AT_ONCE))]
    pub at_once: Option<u32>,
    /// Slurm: which hosts share the limit of --at-once
    #[arg(long, value_name = "SCOPE", default_value = "fleet", requires = "at_once")]
    pub at_once_per: LimitScope,
    /// Maximum time on a host, as for sbatch: MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = slurm_time)]
    pub time: u32,
    /// Slurm: start a job again after a node failure or preemption, when its node is back
    ///
    /// A host that fails while it is measured may fail again: without this option, it is lost
    /// until numaio fleet resume.
    #[arg(long)]
    pub requeue: bool,
    /// Slurm: another option of sbatch or srun, such as --account=NAME; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub slurm_option: Vec<String>,
    /// Slurm: how reports arrive
    #[arg(long = "return", value_name = "HOW", default_value = "shared")]
    pub report_return: ReturnChoice,
    /// Keep the run in a new directory below DIR [default: the state directory of numaio]
    ///
    /// With Slurm, all nodes must have it at the same path.
    #[arg(long, value_name = "DIR")]
    pub shared: Option<PathBuf>,
    /// Path of numaio on the hosts, or a command that starts it, with words separated by blanks:
    /// 'sudo numaio' [default: numaio with ssh, the path of this program with Slurm]
    #[arg(long, value_name = "COMMAND", value_parser = numaio_transfer::ssh::remote_command)]
    pub remote_numaio: Option<String>,
    /// Print the description of the run as JSON
    #[arg(long)]
    pub json: bool,
    /// Command of numaio: model, stream, latency, bench, sweep, topology, devices or doctor
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  numaio fleet run --on slurm -p batch --shared /nfs/numaio -- model --all
  numaio fleet run --on ssh --hosts hosts.txt --at-once 16 -- stream";

/// Runs `numaio fleet run`.
pub fn run(common: &Common, args: &RunArgs, parse: ParseCommand) -> Result<ExitCode, Failure> {
    check_command(&args.command, parse)?;
    check_launcher_options(args)?;
    interrupt::install().map_err(Failure::new)?;
    let hosts = match args.on {
        LauncherChoice::Slurm => slurm::select_nodes(&slurm::NodeSelection {
            partition: args.partition.clone(),
            nodes: args.nodelist.clone(),
            count: args.nodes,
        })?,
        LauncherChoice::Ssh => read_hosts(args)?,
    };
    let run = FleetRun {
        schema: FLEET_RUN_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        id: new_id(SystemTime::now()).map_err(Failure::new)?,
        created_at: now(),
        launcher: launcher(args),
        remote_numaio: remote_numaio(args)?,
        machine_options: machine_options(common),
        command: args.command.clone(),
        time_limit_s: args.time,
        hosts,
    };
    let base = args.shared.clone().or_else(default_base).ok_or_else(|| {
        Failure::new("no directory for the run: no state directory")
            .hint("use --shared DIR, or set XDG_STATE_HOME or HOME")
    })?;
    let directory = RunDirectory::create(&base, &run)?;
    let _lock = directory.lock()?;
    output::remark(common, &format!("run {}: {}", run.id, directory.path().display()));
    let available = run.hosts.iter().filter(|host| host.unavailable.is_none());
    let names: Vec<String> = available.map(|host| host.name.clone()).collect();
    launch(common, LaunchedRun { run, directory: &directory }, &names, args.json)
}

/// A run with its directory.
pub struct LaunchedRun<'a> {
    /// The run.
    pub run: FleetRun,
    /// Its directory.
    pub directory: &'a RunDirectory,
}

/// Launches hosts of a locked run, and prints the run or its state.
pub fn launch(
    common: &Common,
    launched: LaunchedRun<'_>,
    hosts: &[String],
    as_json: bool,
) -> Result<ExitCode, Failure> {
    match launched.run.launcher.clone() {
        FleetLauncher::Slurm(options) if options.report_return == ReportReturn::SharedDirectory => {
            submit(common, launched, &options, hosts, as_json)
        }
        FleetLauncher::Slurm(options) => {
            let run = launched.run.clone();
            let command = move |host: &str| slurm::srun_command(&run, &options, host);
            run_in_foreground(common, launched, hosts, ("srun", &command), as_json)
        }
        FleetLauncher::Ssh { .. } => {
            let run = launched.run.clone();
            let command = move |host: &str| ssh::command(&run, host);
            run_in_foreground(common, launched, hosts, ("ssh", &command), as_json)
        }
    }
}

/// Submits jobs, and prints the run.
fn submit(
    common: &Common,
    launched: LaunchedRun<'_>,
    options: &SlurmLaunch,
    hosts: &[String],
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let LaunchedRun { mut run, directory } = launched;
    let described = run.clone();
    let mut record = |jobs: &[(String, String)]| {
        for (host, job) in jobs {
            run.hosts.iter_mut().filter(|known| known.name == *host).for_each(|known| {
                known.jobs.push(job.clone());
                known.unavailable = None;
            });
        }
        directory.save(&run)
    };
    if !hosts.is_empty() {
        slurm::submit(&described, options, directory, hosts, &interrupt::interrupted, &mut record)?;
    }
    for host in &run.hosts {
        if let Some(reason) = &host.unavailable {
            output::remark(common, &format!("{}: no job submitted: {reason}", host.name));
        }
    }
    let text = match as_json {
        true => json(&run)?,
        false => format!(
            "run {}: submitted {} of {} hosts to Slurm\nnumaio fleet status {} shows their state\n",
            run.id,
            hosts.len(),
            run.hosts.len(),
            run.id
        ),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

/// Runs a process for each host, and prints the state of the run.
fn run_in_foreground(
    common: &Common,
    launched: LaunchedRun<'_>,
    hosts: &[String],
    (program, command): (&str, &(dyn Fn(&str) -> Command + Sync)),
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let LaunchedRun { run, directory } = launched;
    let on_host = Duration::from_secs(run.time_limit_s.into());
    let (at_once, time_limit) = match &run.launcher {
        FleetLauncher::Slurm(options) => (options.at_once.unwrap_or(DEFAULT_AT_ONCE), on_host + QUEUE_TIME),
        FleetLauncher::Ssh { at_once } => (*at_once, on_host + CONNECTION_TIME),
    };
    let on_end = |host: &str, reason: Option<&str>| {
        output::remark(common, &format!("{host}: {}", reason.unwrap_or("measured")));
    };
    let launcher = HostLauncher {
        command,
        program,
        at_once,
        time_limit,
        stop: &interrupt::interrupted,
        on_end: &on_end,
    };
    let result = run_hosts(&launcher, directory, &run.id, hosts);
    if let (Err(LaunchError::Interrupted), FleetLauncher::Slurm(_)) = (&result, &run.launcher) {
        // srun was killed if it did not end in time, and its job may still run.
        slurm::cancel(&run)?;
    }
    match result {
        Err(LaunchError::Interrupted) => {
            let failure = Failure::new("interrupted; reports of measured hosts are kept");
            let failure = failure.hint(format!("numaio fleet resume {} measures the others", run.id));
            Err(Failure { code: INTERRUPTED, ..failure })
        }
        Err(error) => Err(Failure::from(error)
            .hint(format!("numaio fleet resume {} measures the hosts without a report", run.id))),
        Ok(()) => {
            let found = status(directory, &run, &RunJobs::default(), false);
            let text = match as_json {
                true => json(&run)?,
                false => numaio_report::fleet_status_text(&found, false, &output::style(common)),
            };
            output::print(&text)?;
            Ok(if found.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Checks the machine and the command of a stored run as if they were typed: they are arguments of
/// numaio on the hosts.
pub fn check_stored(run: &FleetRun, parse: ParseCommand) -> Result<(), Failure> {
    check_command(&run.command, parse)?;
    let words: Vec<String> = run.machine_options.iter().cloned().chain(["topology".to_owned()]).collect();
    match parse(&words) {
        Ok(common) if machine_options(&common) == run.machine_options => Ok(()),
        _ => Err(Failure::usage(format!(
            "invalid machine of the run: '{}'",
            run.machine_options.join(" ").escape_debug()
        ))
        .hint("expected --machine NAME or --sysroot DIR")),
    }
}

/// Checks the command before many hosts run it.
fn check_command(command: &[String], parse: ParseCommand) -> Result<(), Failure> {
    let Some(name) = command.first() else { return Ok(()) };
    if !COMMANDS.contains(&name.as_str()) {
        return Err(Failure::usage(format!("hosts of a fleet cannot run 'numaio {}'", name.escape_debug()))
            .hint(format!("expected one of {}", COMMANDS.join(", "))));
    }
    let common = parse(&with_json(command)).map_err(|error| {
        let error = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(format!("invalid command of the hosts: {error}"))
            .hint(format!("numaio {name} --help lists its options"))
    })?;
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("--machine and --sysroot apply to the whole report")
            .hint("place them before --: numaio fleet run --machine NAME ... -- model"));
    }
    Ok(())
}

/// Rejects options of the other launcher, which would have no effect.
fn check_launcher_options(args: &RunArgs) -> Result<(), Failure> {
    let reject = |option: &str, on: &str| Err(Failure::usage(format!("{option} applies to --on {on} only")));
    match args.on {
        LauncherChoice::Slurm if args.hosts.is_some() => reject("--hosts", "ssh"),
        LauncherChoice::Ssh if args.partition.is_some() => reject("--partition", "slurm"),
        LauncherChoice::Ssh if args.nodelist.is_some() => reject("--nodelist", "slurm"),
        LauncherChoice::Ssh if args.nodes.is_some() => reject("--nodes", "slurm"),
        LauncherChoice::Ssh if args.requeue => reject("--requeue", "slurm"),
        LauncherChoice::Ssh if !args.slurm_option.is_empty() => reject("--slurm-option", "slurm"),
        LauncherChoice::Ssh if args.at_once_per == LimitScope::Switch => reject("--at-once-per", "slurm"),
        LauncherChoice::Ssh if args.report_return == ReturnChoice::Output => reject("--return", "slurm"),
        _ if in_foreground(args) && args.at_once.is_some_and(|at_once| at_once > MAX_AT_ONCE) => {
            let message = format!("--at-once is at most {MAX_AT_ONCE} processes of ssh or srun");
            Err(Failure::usage(message))
        }
        _ if args.report_return == ReturnChoice::Output
            && (args.requeue || args.at_once_per == LimitScope::Switch) =>
        {
            Err(Failure::usage("--return output cannot be combined with --requeue and --at-once-per switch"))
        }
        _ => Ok(()),
    }
}

fn in_foreground(args: &RunArgs) -> bool {
    args.on == LauncherChoice::Ssh || args.report_return == ReturnChoice::Output
}

fn launcher(args: &RunArgs) -> FleetLauncher {
    match args.on {
        LauncherChoice::Ssh => FleetLauncher::Ssh { at_once: args.at_once.unwrap_or(DEFAULT_AT_ONCE) },
        LauncherChoice::Slurm => FleetLauncher::Slurm(SlurmLaunch {
            partition: args.partition.clone(),
            at_once: args.at_once,
            per_switch: args.at_once_per == LimitScope::Switch,
            requeue: args.requeue,
            options: args.slurm_option.clone(),
            report_return: match args.report_return {
                ReturnChoice::Shared => ReportReturn::SharedDirectory,
                ReturnChoice::Output => ReportReturn::Output,
            },
        }),
    }
}

/// Returns the command that starts numaio on a host.
fn remote_numaio(args: &RunArgs) -> Result<String, Failure> {
    match (&args.remote_numaio, args.on) {
        (Some(command), _) => Ok(command.clone()),
        (None, LauncherChoice::Ssh) => Ok("numaio".to_owned()),
        (None, LauncherChoice::Slurm) => {
            let path = std::env::current_exe()
                .map_err(|error| Failure::new(format!("cannot find the file of this program: {error}")))?;
            let path = path.to_string_lossy().into_owned();
            match path.contains(|c: char| c.is_ascii_whitespace()) {
                true => Err(Failure::usage(format!("the path '{path}' of this program contains blanks"))
                    .hint("use --remote-numaio COMMAND")),
                false => Ok(path),
            }
        }
    }
}

fn read_hosts(args: &RunArgs) -> Result<Vec<FleetRunHost>, Failure> {
    let Some(path) = &args.hosts else {
        return Err(Failure::usage("--on ssh needs hosts").hint("use --hosts FILE, with a host on each line"));
    };
    let text = input::read_text(path)?;
    let names = hosts::parse_hosts(&text).map_err(|why| Failure::file(path, why))?;
    Ok(names.into_iter().map(|name| FleetRunHost { name, jobs: Vec::new(), unavailable: None }).collect())
}
