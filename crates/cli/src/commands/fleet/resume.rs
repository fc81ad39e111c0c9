//! `numaio fleet status` and `numaio fleet resume`.

use super::run::{check_stored, launch, LaunchedRun, ParseCommand};
use crate::failure::Failure;
use crate::options::Common;
use crate::output::{self, json};
use clap::Args;
use numaio_fleet::launch::run_directory::RunDirectory;
use numaio_fleet::launch::slurm;
use numaio_fleet::launch::status::{status as state_of, RunJobs};
use numaio_linux::interrupt;
use numaio_schema::{FleetLauncher, FleetRun, FleetStatus};
use std::process::ExitCode;

/// Show which hosts of a run are measured, running, queued, failed, lost or missing
///
/// lost: the host ended without a report, by a node failure, time limit, cancellation or lost
/// connection. unreadable: its report cannot be read. missing: it has neither a report nor a job.
///
/// Exit status: 0 if all hosts are measured, 1 if not.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// ID or directory of the run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// List measured hosts too
    #[arg(long, short)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Measure the hosts of a run that failed, are lost or missing
///
/// The options and the command are those of the run. A host with a pending or running job is never
/// measured twice.
///
/// To resume a run of another user is to run its command on its hosts as yourself, with its options
/// of Slurm and its --remote-numaio. Read its run.json first.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// ID or directory of the run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Print the description of the run as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `numaio fleet status`.
pub fn status(common: &Common, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let (directory, run) = RunDirectory::open(&args.run)?;
    // Reports can be read where Slurm is not installed.
    let jobs = RunJobs::read(&run).unwrap_or_else(|error| {
        output::remark(common, &format!("states of jobs are unknown: {error}"));
        RunJobs::default()
    });
    let found = state_of(&directory, &run, &jobs, directory.is_locked());
    let text = match args.json {
        true => json(&found)?,
        false => numaio_report::fleet_status_text(&found, args.all, &output::style(common)),
    };
    output::print(&text)?;
    Ok(if found.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `numaio fleet resume`.
pub fn resume(common: &Common, args: &ResumeArgs, parse: ParseCommand) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    let (directory, _) = RunDirectory::open(&args.run)?;
    let _lock = directory.lock()?;
    // Another launcher may have changed it before the lock.
    let mut run = directory.read_run()?;
    check_stored(&run, parse)?;
    if matches!(run.launcher, FleetLauncher::Slurm(_)) {
        slurm::cancel_held(&slurm::jobs(&run)?);
    }
    let jobs = RunJobs::read(&run)?;
    let found = state_of(&directory, &run, &jobs, false);
    let hosts = hosts_to_measure(&mut run, &found, &jobs)?;
    if hosts.is_empty() && found.hosts.iter().all(|host| !host.state.is_resumable()) {
        let text = match args.json {
            true => json(&run)?,
            false => format!("run {}: no host is failed, lost or missing\n", run.id),
        };
        return output::print(&text).map(|()| ExitCode::SUCCESS);
    }
    directory.save(&run)?;
    launch(common, LaunchedRun { run, directory: &directory }, &hosts, args.json)
}

/// Returns the hosts to measure, and updates which nodes of Slurm are unavailable.
fn hosts_to_measure(run: &mut FleetRun, found: &FleetStatus, jobs: &RunJobs) -> Result<Vec<String>, Failure> {
    let resumable =
        found.hosts.iter().filter(|host| host.state.is_resumable() && !jobs.is_active(&host.host));
    let mut names: Vec<String> = resumable.map(|host| host.host.clone()).collect();
    if let FleetLauncher::Slurm(options) = &run.launcher {
        let nodes = slurm::unusable_nodes(options.partition.as_deref())?;
        for host in run.hosts.iter_mut().filter(|host| names.contains(&host.name)) {
            host.unavailable = match nodes.get(&host.name) {
                Some(reason) => reason.clone(),
                None => Some("Slurm no longer has this node in the partition".to_owned()),
            };
        }
        names.retain(|name| run.hosts.iter().any(|host| host.name == *name && host.unavailable.is_none()));
    }
    Ok(names)
}
