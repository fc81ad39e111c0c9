//! The state of each host of a run, from its directory and from Slurm.

use super::host_report::older_program;
use super::run_directory::{RunDirectory, StoredReport};
use super::slurm::job_script::NO_RUN_DIRECTORY;
use super::slurm::{self, ExitCode, JobPhase, SlurmJob};
use super::LaunchError;
use numaio_linux::ssh_command::NOT_FOUND;
use numaio_linux::user_files;
use numaio_schema::{
    FleetHostState, FleetHostStatus, FleetLauncher, FleetRun, FleetRunHost, FleetStateCount, FleetStatus,
    FLEET_STATUS_SCHEMA,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// Slurm's number of an error of opening the files of a job (`ESLURMD_IO_ERROR` as signal 53).
const CANNOT_OPEN_LOG: u8 = 53;

/// Maximum size of a log that is searched for a reason.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The jobs of a run.
#[derive(Debug, Default)]
pub struct RunJobs {
    /// The last job of each host.
    by_host: BTreeMap<String, SlurmJob>,
    /// Hosts with a pending or running job.
    active: BTreeSet<String>,
}

impl RunJobs {
    /// Returns the jobs of a run that Slurm knows.
    ///
    /// # Errors
    /// squeue fails.
    pub fn read(run: &FleetRun) -> Result<Self, LaunchError> {
        if matches!(run.launcher, FleetLauncher::Ssh { .. }) {
            return Ok(Self::default());
        }
        let listed = slurm::jobs(run)?;
        let known: BTreeSet<&str> = listed.iter().map(|job| job.id.as_str()).collect();
        let last = run.hosts.iter().filter_map(|host| host.jobs.last());
        let arrays: BTreeSet<&str> = last
            .filter(|job| !known.contains(job.as_str()))
            .map(|job| job.split('_').next().unwrap_or(job))
            .collect();
        let past = slurm::past_jobs(&arrays.into_iter().collect::<Vec<_>>());
        Ok(Self::of(&run.hosts, listed, past))
    }

    /// Assigns jobs to hosts.
    fn of(hosts: &[FleetRunHost], listed: Vec<SlurmJob>, past: Vec<SlurmJob>) -> Self {
        let recorded: BTreeMap<&str, &str> = hosts
            .iter()
            .flat_map(|host| host.jobs.iter().map(|job| (job.as_str(), host.name.as_str())))
            .collect();
        let mut jobs = Self::default();
        // Those of squeue are newer, so that they replace those of sacct.
        for mut job in past.into_iter().chain(listed) {
            if job.host.is_empty() {
                let Some(host) = recorded.get(job.id.as_str()) else { continue };
                job.host = (*host).to_owned();
            }
            if job.phase.is_active() {
                jobs.active.insert(job.host.clone());
            }
            let last = jobs.by_host.get(&job.host);
            if last.is_none_or(|last| order(&last.id) <= order(&job.id)) {
                jobs.by_host.insert(job.host.clone(), job);
            }
        }
        jobs
    }

    /// Returns whether a job for the host is pending or running.
    pub fn is_active(&self, host: &str) -> bool {
        self.active.contains(host)
    }
}

/// Returns a key by which later jobs follow earlier ones.
fn order(id: &str) -> (u64, u64) {
    let mut numbers = id.split('_').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Returns the state of a run. `is_launching` is whether another process launches hosts, by
/// [`RunDirectory::is_locked`].
pub fn status(directory: &RunDirectory, run: &FleetRun, jobs: &RunJobs, is_launching: bool) -> FleetStatus {
    let hosts: Vec<FleetHostStatus> =
        run.hosts.iter().map(|host| host_status(directory, run, host, jobs, is_launching)).collect();
    let count = |state| hosts.iter().filter(|host| host.state == state).count();
    let counts = FleetHostState::ALL.map(|state| FleetStateCount { state, hosts: count(state) as u32 });
    FleetStatus {
        schema: FLEET_STATUS_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        run: run.id.clone(),
        directory: directory.path().display().to_string(),
        command: run.command.clone(),
        checked_at: numaio_machine::calendar::seconds_since_1970(SystemTime::now()),
        counts: counts.into_iter().filter(|count| count.hosts > 0).collect(),
        hosts,
    }
}

fn host_status(
    directory: &RunDirectory,
    run: &FleetRun,
    host: &FleetRunHost,
    jobs: &RunJobs,
    is_launching: bool,
) -> FleetHostStatus {
    let job = jobs.by_host.get(&host.name);
    let report = directory.report(&host.name, &run.id);
    let finished_at = match report {
        StoredReport::Measured { finished_at } => Some(finished_at),
        _ => None,
    };
    let is_foreground = match &run.launcher {
        FleetLauncher::Slurm(launch) => launch.report_return == numaio_schema::ReportReturn::Output,
        FleetLauncher::Ssh { .. } => true,
    };
    let (state, reason) = match (report, job.map(|job| &job.phase)) {
        (StoredReport::Measured { finished_at }, _) => {
            (FleetHostState::Measured, clock_behind(finished_at, run.created_at))
        }
        (_, Some(JobPhase::Running)) => (FleetHostState::Running, None),
        (_, Some(JobPhase::Pending(reason))) => (FleetHostState::Queued, Some(queued(reason))),
        (_, Some(JobPhase::Ended(reason))) if !is_foreground => {
            (FleetHostState::Lost, Some((*reason).to_owned()))
        }
        (report, phase) if is_foreground => {
            foreground_state(directory, host, report, is_launching, phase.is_some())
        }
        (StoredReport::Failed(reason), _) => (FleetHostState::Failed, Some(reason)),
        (StoredReport::Unreadable(reason), _) => (FleetHostState::Unreadable, Some(reason)),
        (StoredReport::Absent, Some(JobPhase::Exited(exit))) => exited(directory, job, *exit),
        (StoredReport::Absent, _) => without_job(host),
    };
    let id = job.map(|job| job.id.clone()).or_else(|| host.jobs.last().cloned());
    FleetHostStatus { host: host.name.clone(), state, reason, job: id, finished_at }
}

/// Returns the remark about a host whose measurement ended before the run was created.
fn clock_behind(finished_at: u64, created_at: u64) -> Option<String> {
    let seconds = created_at.checked_sub(finished_at).filter(|seconds| *seconds > 0)?;
    Some(format!("its clock is at least {seconds} s behind: its figures count as older than they are"))
}

/// Explains Slurm's reason of a pending job.
fn queued(reason: &str) -> String {
    match reason {
        "" | "None" => "it waits for its node".to_owned(),
        "JobArrayTaskLimit" => "it waits for another host (--at-once)".to_owned(),
        reason => format!("Slurm: {reason}"),
    }
}

/// Returns the state of a host whose report a process of this host receives.
fn foreground_state(
    directory: &RunDirectory,
    host: &FleetRunHost,
    report: StoredReport,
    is_launching: bool,
    has_ended_job: bool,
) -> (FleetHostState, Option<String>) {
    match (is_launching, directory.failure(&host.name), report) {
        (true, None, _) if directory.is_started(&host.name) => (FleetHostState::Running, None),
        (_, Some(reason), _) => (FleetHostState::Lost, Some(reason)),
        (_, None, StoredReport::Failed(reason)) => (FleetHostState::Failed, Some(reason)),
        (_, None, StoredReport::Unreadable(reason)) => (FleetHostState::Unreadable, Some(reason)),
        (true, None, _) => (FleetHostState::Queued, None),
        (false, None, _) if has_ended_job => {
            (FleetHostState::Lost, Some("its launcher was interrupted".to_owned()))
        }
        (false, None, _) => (FleetHostState::Missing, host.unavailable.clone()),
    }
}

/// Returns the state of a host whose job exited without a report.
fn exited(
    directory: &RunDirectory,
    job: Option<&SlurmJob>,
    exit: ExitCode,
) -> (FleetHostState, Option<String>) {
    let id = job.map_or("", |job| &job.id);
    let log = directory.logs().join(format!("{id}.log"));
    let shared = directory.path().display();
    let printed = user_files::read_stored(&log, MAX_LOG_BYTES).ok();
    let printed = printed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let older = printed.as_deref().and_then(older_program);
    let reason = match exit {
        ExitCode { status: NO_RUN_DIRECTORY, signal: 0 } => {
            format!("its node does not have the directory '{shared}': use --shared or --return output")
        }
        ExitCode { signal: CANNOT_OPEN_LOG, .. } => {
            format!("Slurm cannot write to '{shared}' on its node: use --shared or --return output")
        }
        ExitCode { status, signal: 0 } if i32::from(status) == NOT_FOUND => {
            "numaio is not installed on the host: use --remote-numaio".to_owned()
        }
        ExitCode { signal: 0, .. } if older.is_some() => older.unwrap_or_default(),
        // numaio prints why it writes no report, unless nothing can be written.
        ExitCode { status, signal: 0 } if printed.is_some_and(|printed| printed.trim().is_empty()) => {
            format!(
                "its job exited with status {status}, no report and an empty log: the file system of \
                 '{shared}' may be full"
            )
        }
        ExitCode { status, signal: 0 } => {
            format!("its job exited with status {status} and no report; see '{}'", log.display())
        }
        ExitCode { signal, .. } => format!("signal {signal} ended its job; see '{}'", log.display()),
    };
    (FleetHostState::Lost, Some(reason))
}

/// Returns the state of a host without report of which Slurm knows no job.
fn without_job(host: &FleetRunHost) -> (FleetHostState, Option<String>) {
    match (host.jobs.last(), &host.unavailable) {
        (_, Some(reason)) => (FleetHostState::Missing, Some(reason.clone())),
        (Some(job), None) => {
            let reason = "left no report, and Slurm no longer lists it";
            (FleetHostState::Lost, Some(format!("its job {reason}; see logs/{job}.log in the run")))
        }
        (None, None) => (FleetHostState::Missing, Some("no job was submitted".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::{run_of, Scratch};
    use numaio_schema::{ReportReturn, SlurmLaunch};

    fn slurm_run(hosts: &[&str]) -> FleetRun {
        let launch = SlurmLaunch {
            partition: None,
            at_once: None,
            per_switch: false,
            requeue: false,
            options: Vec::new(),
            report_return: ReportReturn::SharedDirectory,
        };
        let mut run = run_of(hosts);
        run.launcher = FleetLauncher::Slurm(launch);
        for (index, host) in run.hosts.iter_mut().enumerate() {
            host.jobs = vec![format!("12_{index}")];
        }
        run
    }

    fn job(id: &str, host: &str, phase: JobPhase) -> SlurmJob {
        SlurmJob { id: id.to_owned(), host: host.to_owned(), phase }
    }

    fn states(status: &FleetStatus) -> Vec<(String, FleetHostState)> {
        status.hosts.iter().map(|host| (host.host.clone(), host.state)).collect()
    }

    #[test]
    fn reports_and_jobs_determine_the_state() {
        let scratch = Scratch::new();
        let names = ["ok", "failed", "half", "runs", "waits", "node", "exit", "purged", "none"];
        let mut run = slurm_run(&names);
        run.hosts[8].jobs.clear();
        let directory = RunDirectory::create(&scratch.0, &run).expect("a run");
        let report = |host: &str, failure: &str| {
            let text = format!(
                "{{\"schema\":\"numaio/host-report/1\",\"host\":\"{host}\",\"run\":\"r1\",\"finished_at\":7{failure}}}"
            );
            directory.write_report(host, &text).expect("a report");
        };
        report("ok", "");
        report("failed", ",\"failure\":\"no memory\"");
        directory.write_report("half", "{\"schema\":").expect("a report");
        // An earlier attempt failed.
        report("runs", ",\"failure\":\"no memory\"");
        let exit = |status| JobPhase::Exited(ExitCode { status, signal: 0 });
        let listed = vec![
            job("12_0", "ok", exit(0)),
            job("12_1", "failed", exit(1)),
            job("13_0", "runs", JobPhase::Running),
            job("12_3", "runs", exit(1)),
            job("12_4", "waits", JobPhase::Pending("JobArrayTaskLimit".to_owned())),
            job("12_6", "exit", exit(72)),
        ];
        let past = vec![job("12_5", "", JobPhase::Ended("its node failed"))];
        let jobs = RunJobs::of(&run.hosts, listed, past);
        let status = status(&directory, &run, &jobs, false);
        use FleetHostState::{Failed, Lost, Measured, Missing, Queued, Running, Unreadable};
        let expected = [Measured, Failed, Unreadable, Running, Queued, Lost, Lost, Lost, Missing];
        let expected: Vec<_> = names.iter().map(|name| (*name).to_owned()).zip(expected).collect();
        assert_eq!(states(&status), expected);
        let reason = |index: usize| status.hosts[index].reason.as_deref().unwrap_or_default();
        assert_eq!((reason(1), reason(5)), ("no memory", "its node failed"));
        assert!(reason(6).contains("use --shared") && reason(7).contains("no longer lists it"));
        assert_eq!(status.hosts[3].job.as_deref(), Some("13_0"));
        assert!(jobs.is_active("runs") && jobs.is_active("waits") && !jobs.is_active("node"));
        assert!(!status.is_complete() && status.counts[0].hosts == 1);
    }

    #[test]
    fn logs_and_clocks_are_reasons() {
        let scratch = Scratch::new();
        let mut run = slurm_run(&["older", "full", "other", "behind"]);
        run.created_at = 10;
        let directory = RunDirectory::create(&scratch.0, &run).expect("a run");
        let log = |job: &str, text: &str| {
            std::fs::write(directory.logs().join(format!("{job}.log")), text).expect("a log");
        };
        log("12_0", "error: unrecognized subcommand 'fleet'\n");
        log("12_1", "");
        log("12_2", "numaio: no memory\n");
        let report = r#"{"schema":"numaio/host-report/1","host":"behind","run":"r1","finished_at":7}"#;
        directory.write_report("behind", report).expect("a report");
        let exit = |status| JobPhase::Exited(ExitCode { status, signal: 0 });
        let listed =
            vec![job("12_0", "older", exit(2)), job("12_1", "full", exit(1)), job("12_2", "other", exit(1))];
        let status = status(&directory, &run, &RunJobs::of(&run.hosts, listed, Vec::new()), false);
        let reason = |index: usize| status.hosts[index].reason.as_deref().unwrap_or_default();
        assert_eq!(reason(0), "its numaio is older and has no 'fleet host-report'");
        assert!(reason(1).contains("an empty log") && reason(1).ends_with("may be full"), "{}", reason(1));
        assert!(reason(2).contains("exited with status 1 and no report; see"), "{}", reason(2));
        assert_eq!(status.hosts[3].state, FleetHostState::Measured);
        assert!(reason(3).starts_with("its clock is at least 3 s behind"), "{}", reason(3));
    }

    #[test]
    fn last_job_follows_by_number() {
        let run = slurm_run(&["n1"]);
        let ended = |reason| JobPhase::Ended(reason);
        let jobs = vec![job("100_2", "n1", ended("b")), job("20_9", "n1", ended("a"))];
        let jobs = RunJobs::of(&run.hosts, jobs, Vec::new());
        assert_eq!(jobs.by_host["n1"].phase, ended("b"));
    }

    #[test]
    fn foreground_hosts_wait_while_their_launcher_runs() {
        let scratch = Scratch::new();
        let run = run_of(&["a", "b", "c"]);
        let directory = RunDirectory::create(&scratch.0, &run).expect("a run");
        directory.write_failure("b", "ssh failed").expect("a failure");
        directory.mark_started("a");
        let now = || {
            let status = status(&directory, &run, &RunJobs::default(), directory.is_locked());
            states(&status).into_iter().map(|state| state.1)
        };
        let lock = directory.lock().expect("a lock");
        use FleetHostState::{Lost, Missing, Queued, Running};
        assert_eq!(now().collect::<Vec<_>>(), [Running, Lost, Queued]);
        drop(lock);
        assert_eq!(now().collect::<Vec<_>>(), [Missing, Lost, Missing]);
    }
}
