//! `numaio jobs`: list, cancel and resume transfers.

use super::copy;
use crate::failure::transfer::job_outcome;
use crate::failure::{Failure, INTERRUPTED};
use crate::options::{integer, Common, Invocation};
use crate::output;
use crate::output::json;
use clap::{Args, Parser, Subcommand};
use numaio_linux::process::ProcessHandle;
use numaio_linux::{interrupt, Root};
use numaio_schema::{Job, JobState};
use numaio_transfer::capacity::local_broker;
use numaio_transfer::jobs;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// List, cancel and resume transfers
///
/// Every numaio copy is recorded as a job, except with --no-job or --dry-run. The newest 100 jobs
/// are kept for 30 days, in the directory numaio/jobs of XDG_STATE_HOME.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: Option<JobAction>,
}

/// An action on jobs.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum JobAction {
    /// List all jobs; the default
    List,
    /// List the transfers that this host's daemon serves, or that wait for it
    ///
    /// Root and the daemon's user see all transfers, other users their own. The daemon needs a
    /// [local] section.
    Queue,
    /// Show one job with its failures
    Show {
        /// Number of the job; the newest by default
        #[arg(value_name = "ID", value_parser = integer(1..=u32::MAX))]
        id: Option<u32>,
    },
    /// Run the command of a job again in the same directory: it continues where it stopped
    ///
    /// It runs in the current environment, not in that of the first run; numaio jobs show prints
    /// the relevant variables.
    Resume {
        /// Number of the job
        #[arg(value_name = "ID", value_parser = integer(1..=u32::MAX))]
        id: u32,
    },
    /// Interrupt a job as Ctrl-C does, and wait until it has stopped
    Cancel {
        /// Number of the job
        #[arg(value_name = "ID", value_parser = integer(1..=u32::MAX))]
        id: u32,
    },
}

/// How often waiting checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs `numaio jobs`.
pub fn run(common: &Common, args: &JobsArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("jobs run on this machine, not on a recorded one"));
    }
    match args.action.unwrap_or(JobAction::List) {
        JobAction::List => list(common, args),
        JobAction::Queue => queue(common, args),
        JobAction::Show { id } => show(common, args, id),
        JobAction::Cancel { id } => cancel(common, args, id),
        JobAction::Resume { .. } if args.json => Err(Failure::usage("--json applies to list and show only")
            .hint("a resumed job prints JSON if its command has --json")),
        JobAction::Resume { id } => resume(id),
    }
}

/// Returns all jobs, and reports the files that are not jobs.
fn all(common: &Common) -> Result<Vec<Job>, Failure> {
    let (jobs, errors) = jobs::all()?;
    errors.iter().for_each(|error| output::remark(common, &error.to_string()));
    Ok(jobs)
}

fn list(common: &Common, args: &JobsArgs) -> Result<ExitCode, Failure> {
    let jobs = all(common)?;
    let text = match args.json {
        true => json(&jobs)?,
        false => numaio_report::jobs_text(&jobs, &output::style(common)),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

fn queue(common: &Common, args: &JobsArgs) -> Result<ExitCode, Failure> {
    let no_daemon = || Failure::usage("NUMAIO_BROKER is empty: no daemon is asked").hint("unset it");
    let socket = local_broker::socket().ok_or_else(no_daemon)?;
    let transfers = local_broker::list(&socket).map_err(|error| {
        Failure::new(format!("cannot ask the daemon at {}: {error}", socket.display()))
            .hint("numaio serve needs a [local] section; NUMAIO_BROKER names another socket")
    })?;
    let text = match args.json {
        true => json(&transfers)?,
        false => numaio_report::queue_text(&transfers, &output::style(common)),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

fn show(common: &Common, args: &JobsArgs, id: Option<u32>) -> Result<ExitCode, Failure> {
    let job = match id {
        Some(id) => jobs::find(id)?,
        None => all(common)?.pop().ok_or_else(|| {
            Failure::usage("no jobs found").hint("every numaio copy without --no-job records one")
        })?,
    };
    print(common, args, &job)
}

fn print(common: &Common, args: &JobsArgs, job: &Job) -> Result<ExitCode, Failure> {
    let text = match args.json {
        true => json(job)?,
        false => numaio_report::job_text(job, &output::style(common)),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

fn cancel(common: &Common, args: &JobsArgs, id: u32) -> Result<ExitCode, Failure> {
    let job = jobs::find(id)?;
    if !job.state.is_alive() {
        return Err(Failure::usage(format!("job {id} is not running: it is {}", job.state.name())));
    }
    if !jobs::is_local(&job) {
        let host = &job.process.host;
        return Err(Failure::new(format!("job {id} runs on {host}")).hint("cancel it there"));
    }
    interrupt::install().map_err(Failure::new)?;
    let root = Root::live().map_err(Failure::new)?;
    let failed = |error| {
        Failure::new(format!("cannot cancel job {id}: {error}"))
            .hint(format!("kill {} interrupts it, too", job.process.pid))
    };
    let running = ProcessHandle::find(&root, job.process.pid, job.process.start_time).map_err(failed)?;
    if let Some(running) = running {
        // A second interrupt would kill the process without a clean stop.
        match job.state {
            JobState::Cancelling => running.send_continue(),
            _ => running.interrupt().map_err(failed)?,
        }
        while !running.exits_within(POLL_INTERVAL).map_err(failed)? {
            if interrupt::interrupted() {
                let failure = Failure::new(format!("job {id} was interrupted, but has not stopped yet"));
                return Err(Failure { code: INTERRUPTED, ..failure });
            }
        }
    }
    let job = jobs::find(id)?;
    if args.json {
        return print(common, args, &job);
    }
    let then = match job.state {
        JobState::Done => "it had finished before".to_owned(),
        _ => format!("numaio jobs resume {id} continues it"),
    };
    output::remark(common, &format!("job {id} has stopped; {then}"));
    Ok(ExitCode::SUCCESS)
}

/// `numaio copy` alone.
#[derive(Debug, Subcommand)]
enum CopyOnly {
    Copy(copy::CopyArgs),
}

fn resume(id: u32) -> Result<ExitCode, Failure> {
    let lock = jobs::lock();
    let job = jobs::find(id)?;
    if job.state.is_alive() {
        return Err(Failure::usage(format!("job {id} is running")).hint(format!("numaio jobs show {id}")));
    }
    let words = std::iter::once(OsString::from("numaio")).chain(job.command.iter().map(jobs::to_os_string));
    let cannot_resume = |error: String| {
        Failure::new(format!("cannot resume job {id}: {error}")).hint("run its command again")
    };
    if !jobs::is_local(&job) {
        // Its paths may name other files on this host.
        return Err(cannot_resume(format!("it ran on {}", job.process.host)));
    }
    // Another version of numaio may have other options.
    let invocation = Invocation::<CopyOnly>::try_parse_from(words);
    let Invocation { common, command: CopyOnly::Copy(command) } =
        invocation.map_err(|error| match error.kind() {
            clap::error::ErrorKind::InvalidSubcommand => {
                cannot_resume("its command is not numaio copy".to_owned())
            }
            _ => cannot_resume(error.to_string()),
        })?;
    let directory = jobs::to_os_string(&job.directory);
    std::env::set_current_dir(&directory)
        .map_err(|error| cannot_resume(format!("{}: {error}", directory.to_string_lossy())))?;
    if let Some(path) = command.unrepeatable_input() {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        return Err(cannot_resume(format!("it read {name}, which cannot be read again: not a regular file")));
    }
    // An unmounted source would look empty, and --delete would remove its files at the destination.
    let is_another = |(before, now): (&u64, u64)| *before != 0 && *before != now;
    if command.deletion.deletes() && job.source_inodes.iter().zip(command.source_inodes()).any(is_another) {
        return Err(cannot_resume(
            "a source directory may have been replaced, and the job has --delete".to_owned(),
        ));
    }
    if command.uses_ssh() && !jobs::environment().eq(job.environment.clone()) {
        let first: Vec<String> =
            job.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let first = if first.is_empty() { "not set".to_owned() } else { first.join(" ") };
        output::remark(&common, &format!("NUMAIO_SSH differs from the first run: {first}"));
    }
    command.recorder.resume(job)?;
    drop(lock);
    let ended = copy::run(&common, &command);
    // Records also the end of a transfer that could not start.
    command.recorder.end(job_outcome(&ended));
    ended
}
