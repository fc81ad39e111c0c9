//! `numaio jobs`: transfers that run and ran, shown, ended and gone on with.

use super::{copy, json};
use crate::args::{self, Common};
use crate::failure::{Failure, INTERRUPTED};
use crate::{jobs, output};
use clap::{Args, Parser, Subcommand};
use numaio_linux::process::ProcessHandle;
use numaio_linux::{interrupt, Root};
use numaio_schema::{Job, JobState};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Show transfers that run and ran, end them, and go on with those that were cut.
///
/// Every numaio copy notes itself, unless it is told --no-job or --dry-run. Jobs are kept for 30 days, the newest 100 of
/// them, in the folder numaio/jobs of XDG_STATE_HOME.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: Option<JobAction>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum JobAction {
    /// Show all of them; so does numaio jobs alone
    List,
    /// Show all of one, with what failed
    TransferOutput {
        /// Its number; without it the newest
        #[arg(value_name = "ID")]
        id: Option<u32>,
    },
    /// Run the same command again in the same folder: it goes on where it ended
    ///
    /// The environment is that of this command, not that of the first one; numaio jobs show tells what of it matters.
    Resume {
        /// Its number
        #[arg(value_name = "ID")]
        id: u32,
    },
    /// End one in order, as Ctrl-C does, and wait until it has ended
    Cancel {
        /// Its number
        #[arg(value_name = "ID")]
        id: u32,
    },
}

/// How often we look whether to go on waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub fn run(common: &Common, args: &JobsArgs) -> Result<ExitCode, Failure> {
    if common.machine.is_some() || common.sysroot.is_some() {
        return Err(Failure::usage("jobs run on this machine, not on a recorded one"));
    }
    match args.action.unwrap_or(JobAction::List) {
        JobAction::List => list(common, args),
        JobAction::TransferOutput { id } => show(common, args, id),
        JobAction::Cancel { id } => cancel(common, args, id),
        JobAction::Resume { .. } if args.json => Err(Failure::usage("--json is about jobs that are shown")
            .hint("a job prints JSON if its command had --json")),
        JobAction::Resume { id } => resume(id),
    }
}

/// All jobs; files that are none are told of.
fn all(common: &Common) -> Result<Vec<Job>, Failure> {
    let (jobs, failures) = jobs::all()?;
    failures.iter().for_each(|failure| output::remark(common, &failure.message));
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

fn show(common: &Common, args: &JobsArgs, id: Option<u32>) -> Result<ExitCode, Failure> {
    let job = match id {
        Some(id) => jobs::find(id)?,
        None => all(common)?.pop().ok_or_else(|| {
            Failure::usage("there are no jobs").hint("every numaio copy notes one, unless it has --no-job")
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
        return Err(Failure::usage(format!("job {id} does not run: it is {}", job.state.name())));
    }
    if !jobs::is_local(&job) {
        let host = &job.process.host;
        return Err(Failure::new(format!("job {id} runs on {host}")).hint("end it there"));
    }
    interrupt::install().map_err(Failure::new)?;
    let root = Root::live().map_err(Failure::new)?;
    let failed = |error| {
        Failure::new(format!("job {id} cannot be ended: {error}"))
            .hint(format!("kill {} asks it to end, too", job.process.pid))
    };
    let running = ProcessHandle::find(&root, job.process.pid, job.process.began).map_err(failed)?;
    if let Some(running) = running {
        // Who is asked twice does not end in order.
        match job.state {
            JobState::Ending => running.send_continue(),
            _ => running.interrupt().map_err(failed)?,
        }
        while !running.exits_within(POLL_INTERVAL).map_err(failed)? {
            if interrupt::interrupted() {
                let failure = Failure::new(format!("job {id} was asked to end, and has not ended yet"));
                return Err(Failure { code: INTERRUPTED, ..failure });
            }
        }
    }
    let job = jobs::find(id)?;
    if args.json {
        return print(common, args, &job);
    }
    let then = match job.state {
        JobState::Done => "it was done before".to_owned(),
        _ => format!("numaio jobs resume {id} goes on"),
    };
    output::remark(common, &format!("job {id} has ended; {then}"));
    Ok(ExitCode::SUCCESS)
}

fn resume(id: u32) -> Result<ExitCode, Failure> {
    let lock = jobs::lock();
    let job = jobs::find(id)?;
    if job.state.is_alive() {
        return Err(Failure::usage(format!("job {id} runs")).hint(format!("numaio jobs show {id}")));
    }
    let words = std::iter::once(OsString::from("numaio")).chain(job.command.iter().map(jobs::to_os_string));
    let cannot_resume = |error: String| {
        Failure::new(format!("job {id} cannot be resumed: {error}")).hint("type its command anew")
    };
    if !jobs::is_local(&job) {
        // What its paths name here may be something else.
        return Err(cannot_resume(format!("it ran on {}", job.process.host)));
    }
    // Another version of numaio may have other options.
    let args = args::Args::try_parse_from(words).map_err(|error| cannot_resume(error.to_string()))?;
    let args::Command::Copy(command) = &args.command else {
        return Err(cannot_resume("its command is no numaio copy".to_owned()));
    };
    let directory = jobs::to_os_string(&job.directory);
    std::env::set_current_dir(&directory)
        .map_err(|error| cannot_resume(format!("{}: {error}", directory.to_string_lossy())))?;
    if let Some(path) = command.unrepeatable_input() {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        return Err(cannot_resume(format!(
            "it read {name}, which is gone: no regular file keeps what it was"
        )));
    }
    // What an empty mount point does not have would go.
    let is_another = |(before, now): (&u64, u64)| *before != 0 && *before != now;
    if command.delete && job.places.iter().zip(command.source_inodes()).any(is_another) {
        return Err(cannot_resume(
            "a directory that it reads may be another one now, and it has --delete".to_owned(),
        ));
    }
    if command.uses_ssh() && !jobs::environment().eq(job.environment.clone()) {
        let first: Vec<String> =
            job.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let first = if first.is_empty() { "not set".to_owned() } else { first.join(" ") };
        output::remark(&args.common, &format!("NUMAIO_SSH is another one than in the first run: {first}"));
    }
    command.recorder.resume(job)?;
    drop(lock);
    let ended = copy::run(&args.common, command);
    // Also that of a transfer that could not begin.
    command.recorder.end(&ended);
    ended
}
