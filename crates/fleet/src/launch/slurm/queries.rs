//! Queries about nodes and jobs.

use super::commands::{cancel_job, expand, run};
use super::job_options::job_name;
use super::jobs::{parse_jobs, parse_past_jobs, JobPhase, SlurmJob, FORMAT};
use super::nodes::{parse_nodes, NodeSelection};
use crate::launch::limited_command::Input;
use crate::launch::LaunchError;
use numaio_schema::{FleetRun, FleetRunHost};
use std::collections::BTreeMap;

/// Returns the nodes of a selection.
///
/// # Errors
/// An unknown node or partition, or an error of Slurm's commands.
pub fn select_nodes(selection: &NodeSelection) -> Result<Vec<FleetRunHost>, LaunchError> {
    let mut args = vec!["--noheader", "--Node", "--format=%N|%P|%T|%E"];
    match &selection.partition {
        // sinfo rejects both; a named partition is listed even if it is hidden.
        Some(partition) => args.extend(["--partition", partition]),
        None => args.push("--all"),
    }
    let lines = parse_nodes(&run("sinfo", &args, Input::Empty)?);
    let requested = match &selection.nodes {
        Some(nodes) => Some(expand(nodes)?),
        None => None,
    };
    selection.select(&lines, requested.as_deref())
}

/// Returns why no job can start on a node, for each node of a partition; `None` for the default
/// one.
///
/// # Errors
/// sinfo fails.
pub fn unusable_nodes(partition: Option<&str>) -> Result<BTreeMap<String, Option<String>>, LaunchError> {
    let selection = NodeSelection { partition: partition.map(str::to_owned), ..NodeSelection::default() };
    let hosts = select_nodes(&selection)?;
    Ok(hosts.into_iter().map(|host| (host.name, host.unavailable)).collect())
}

/// Returns the jobs of a run that Slurm's controller knows: pending, running, and those that ended
/// in the last minutes (`MinJobAge`).
///
/// The text of squeue has been the same in all releases; its JSON differs by release and is not
/// built everywhere.
///
/// # Errors
/// squeue fails.
pub fn jobs(run_: &FleetRun) -> Result<Vec<SlurmJob>, LaunchError> {
    listed_jobs(&format!("--name={}", job_name(run_)))
}

/// Returns the jobs that squeue selects by an option.
pub(super) fn listed_jobs(selection: &str) -> Result<Vec<SlurmJob>, LaunchError> {
    let args = ["--noheader", "--array", "--all", "--states=all", selection, FORMAT];
    Ok(parse_jobs(&run("squeue", &args, Input::Empty)?))
}

/// Returns past jobs of the accounting database; none without one.
pub fn past_jobs(ids: &[&str]) -> Vec<SlurmJob> {
    if ids.is_empty() {
        return Vec::new();
    }
    let ids = format!("--jobs={}", ids.join(","));
    let args = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode", &ids];
    // Without slurmdbd sacct fails.
    run("sacct", &args, Input::Empty).map(|text| parse_past_jobs(&text)).unwrap_or_default()
}

/// Cancels all jobs of a run.
///
/// # Errors
/// scancel fails.
pub fn cancel(run_: &FleetRun) -> Result<(), LaunchError> {
    run("scancel", &[&format!("--name={}", job_name(run_))], Input::Empty).map(drop)
}

/// Cancels the held jobs of a run, whose launcher was killed before it released them.
pub fn cancel_held(jobs: &[SlurmJob]) {
    let is_held =
        |job: &&SlurmJob| matches!(&job.phase, JobPhase::Pending(reason) if reason == "JobHeldUser");
    jobs.iter().filter(is_held).for_each(|job| cancel_job(&job.id));
}
