//! Submission of job arrays in which each task has its own node.

use super::commands::{cancel_job, expand, run};
use super::job_options::job_options;
use super::job_script::script;
use super::queries::listed_jobs;
use super::switches::parse_switches;
use crate::launch::limited_command::Input;
use crate::launch::run_directory::RunDirectory;
use crate::launch::LaunchError;
use numaio_schema::{FleetRun, SlurmLaunch};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tasks in an array: also the default of Slurm's `MaxArraySize`, less one.
const MAX_TASKS: usize = 1000;

/// Records hosts with the IDs of their jobs.
pub type RecordJobs<'a> = dyn FnMut(&[(String, String)]) -> Result<(), LaunchError> + 'a;

/// A job array to submit.
#[derive(Debug, PartialEq, Eq)]
struct ArrayPlan {
    hosts: Vec<String>,
    /// Maximum number of tasks that run at the same time.
    at_once: Option<u32>,
}

/// Submits one job for each host, and calls `record` with the hosts and their jobs before the jobs
/// can start.
///
/// # Errors
/// Slurm rejects a job, or `stop` returns true. Arrays that were recorded before stay submitted.
pub fn submit(
    run_: &FleetRun,
    launch: &SlurmLaunch,
    directory: &RunDirectory,
    hosts: &[String],
    stop: &dyn Fn() -> bool,
    record: &mut RecordJobs<'_>,
) -> Result<(), LaunchError> {
    let plans = plan_arrays(host_groups(launch, hosts)?, launch.at_once, max_array_size()?)?;
    for plan in &plans {
        if stop() {
            return Err(LaunchError::Interrupted);
        }
        let array = submit_held(run_, launch, directory, plan)?;
        let released = assign_nodes(&array, plan)
            .and_then(|jobs| record(&jobs))
            .and_then(|()| run("scontrol", &["release", &array], Input::Empty).map(drop));
        // A held array without nodes would wait forever.
        released.inspect_err(|_| cancel_job(&array))?;
    }
    Ok(())
}

/// Returns the groups of hosts that share a limit.
fn host_groups(launch: &SlurmLaunch, hosts: &[String]) -> Result<Vec<Vec<String>>, LaunchError> {
    if !launch.per_switch {
        return Ok(vec![hosts.to_vec()]);
    }
    // Without a topology scontrol reports an error and exits with 0.
    let switches = parse_switches(&run("scontrol", &["show", "topology"], Input::Empty)?);
    if switches.is_empty() {
        return Err(LaunchError::NoTopology);
    }
    let mut expanded = Vec::new();
    for (_, nodes) in &switches {
        expanded.push(expand(nodes)?);
    }
    Ok(group_by_switch(hosts, &expanded))
}

/// Groups hosts by their first switch; those without a switch are one group.
fn group_by_switch(hosts: &[String], switches: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut switch_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, nodes) in switches.iter().enumerate() {
        for node in nodes {
            switch_of.entry(node).or_insert(index);
        }
    }
    let mut groups = vec![Vec::new(); switches.len() + 1];
    for host in hosts {
        groups[switch_of.get(host.as_str()).copied().unwrap_or(switches.len())].push(host.clone());
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Divides groups into arrays, and the limit of a group among its arrays.
fn plan_arrays(
    groups: Vec<Vec<String>>,
    at_once: Option<u32>,
    size: usize,
) -> Result<Vec<ArrayPlan>, LaunchError> {
    let mut plans = Vec::new();
    for group in groups {
        let arrays = group.len().div_ceil(size);
        for (index, hosts) in group.chunks(size).enumerate() {
            let share = match at_once {
                None => None,
                Some(at_once) if (at_once as usize) < arrays => {
                    return Err(LaunchError::TooFewAtOnce { at_once, arrays, size })
                }
                Some(at_once) => {
                    let (arrays, index) = (arrays as u32, index as u32);
                    Some(at_once / arrays + u32::from(index < at_once % arrays))
                }
            };
            plans.push(ArrayPlan { hosts: hosts.to_vec(), at_once: share });
        }
    }
    Ok(plans)
}

/// Returns the maximum number of tasks of an array.
fn max_array_size() -> Result<usize, LaunchError> {
    let text = run("scontrol", &["show", "config"], Input::Empty)?;
    Ok(parse_max_array_size(&text).map_or(MAX_TASKS, |size| size.clamp(1, MAX_TASKS)))
}

/// Parses `MaxArraySize = 1001` of `scontrol show config`: one more than the greatest index.
fn parse_max_array_size(text: &str) -> Option<usize> {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines.find(|(key, _)| key.trim() == "MaxArraySize")?.1.trim().parse().ok()
}

/// Submits a held array, and returns its job ID.
fn submit_held(
    run_: &FleetRun,
    launch: &SlurmLaunch,
    directory: &RunDirectory,
    plan: &ArrayPlan,
) -> Result<String, LaunchError> {
    let limit = plan.at_once.map(|limit| format!("%{limit}")).unwrap_or_default();
    let mut args = job_options(run_, launch);
    args.extend([
        "--parsable".to_owned(),
        "--hold".to_owned(),
        format!("--array=0-{}{limit}", plan.hosts.len() - 1),
        format!("--output={}/%A_%a.log", directory.logs().display()),
        // A job that starts again keeps the log of the first attempt.
        "--open-mode=append".to_owned(),
        // A host that fails while it is measured would fail again and again.
        if launch.requeue { "--requeue" } else { "--no-requeue" }.to_owned(),
    ]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let script = script(run_, directory);
    let text = std::str::from_utf8(&script).map_err(|_| LaunchError::UnexpectedOutput {
        command: "sbatch".to_owned(),
        why: "the path of the run is not UTF-8".to_owned(),
    })?;
    let printed = run("sbatch", &args, Input::Text(text))?;
    // With several clusters: `ID;CLUSTER`.
    let id = printed.lines().last().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(id.to_owned()),
        false => Err(LaunchError::UnexpectedOutput {
            command: "sbatch".to_owned(),
            why: format!("expected a job ID, got '{}'", printed.trim().escape_debug()),
        }),
    }
}

/// Sets the node of each task of a held array, and returns hosts with their jobs.
fn assign_nodes(array: &str, plan: &ArrayPlan) -> Result<Vec<(String, String)>, LaunchError> {
    let jobs: Vec<(String, String)> = plan
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| (host.clone(), format!("{array}_{index}")))
        .collect();
    let updates: String =
        jobs.iter().map(|(host, job)| format!("update JobId={job} ReqNodeList={host}\n")).collect();
    // One process for all tasks. Its exit status does not cover every line, so that the result is
    // read.
    run("scontrol", &[], Input::Text(&updates))?;
    let listed = listed_jobs(&format!("--jobs={array}"))?;
    let assigned: BTreeSet<(String, String)> = listed.into_iter().map(|job| (job.host, job.id)).collect();
    match jobs.iter().find(|job| !assigned.contains(job)) {
        None => Ok(jobs),
        Some((host, job)) => Err(LaunchError::CommandFailed {
            command: "scontrol update".to_owned(),
            why: format!("did not set node '{host}' of job {job}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|index| format!("n{index}")).collect()
    }

    #[test]
    fn arrays_share_the_limit_of_their_group() {
        let limits = |hosts: usize, at_once| {
            let plans =
                plan_arrays(vec![names(0..hosts)], at_once, 1000).map_err(|error| error.to_string())?;
            Ok::<_, String>(plans.iter().map(|plan| (plan.hosts.len(), plan.at_once)).collect::<Vec<_>>())
        };
        assert_eq!(limits(4, None), Ok(vec![(4, None)]));
        assert_eq!(limits(2500, Some(8)), Ok(vec![(1000, Some(3)), (1000, Some(3)), (500, Some(2))]));
        let error = limits(2500, Some(2)).expect_err("too few");
        assert_eq!(error, "--at-once 2 is below the number of job arrays, 3, of at most 1000 hosts each");
    }

    #[test]
    fn hosts_below_one_switch_share_a_limit() {
        let switches = [vec!["n0".to_owned(), "n3".to_owned()], names(1..3), names(7..9)];
        let groups = group_by_switch(&names(0..5), &switches);
        assert_eq!(groups, [vec!["n0".to_owned(), "n3".to_owned()], names(1..3), names(4..5)]);
    }

    #[test]
    fn reads_the_maximum_size_of_arrays() {
        assert_eq!(parse_max_array_size("MaxArraySize            = 1001\nMaxBatchRequeue = 5\n"), Some(1001));
        assert_eq!(parse_max_array_size("Configuration data\n"), None);
    }
}
