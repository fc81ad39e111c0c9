//! A process for each host, a limited number at the same time, whose stdout returns the report.

use super::frame::{self, FrameError};
use super::host_report::older_program;
use super::limited_command::{run_limited, CapturedOutput, CommandEnd, CommandLimits, Input};
use super::run_directory::{RunDirectory, MAX_REPORT_BYTES};
use super::stored_run::MAX_AT_ONCE;
use super::LaunchError;
use numaio_linux::ssh_command::{NOT_FOUND, SSH_FAILED};
use numaio_schema::HostReport;
use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Exit statuses by which shells report signals (POSIX: above 128; bash and dash: 128 and the
/// signal).
const SIGNALED: RangeInclusive<i32> = 129..=192;

/// How to reach the hosts.
pub struct HostLauncher<'a> {
    /// Returns the command for a host.
    pub command: &'a (dyn Fn(&str) -> Command + Sync),
    /// Name of the program, such as `ssh`.
    pub program: &'a str,
    /// Greatest number of processes at the same time.
    pub at_once: u32,
    /// Maximum time of a process.
    pub time_limit: Duration,
    /// Whether to terminate the processes.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Is called with a host and the reason why it was not measured, or `None`.
    pub on_end: &'a (dyn Fn(&str, Option<&str>) + Sync),
}

/// Measures hosts, and stores the report of each, or why it has none.
///
/// # Errors
/// [`LaunchError::Interrupted`], and errors of writing to the run's directory. Hosts that were not
/// measured can be resumed.
pub fn run_hosts(
    launcher: &HostLauncher<'_>,
    directory: &RunDirectory,
    run: &str,
    hosts: &[String],
) -> Result<(), LaunchError> {
    let next = AtomicUsize::new(0);
    let broken = AtomicBool::new(false);
    let first_error: Mutex<Option<LaunchError>> = Mutex::new(None);
    let stop = || broken.load(Ordering::Relaxed) || (launcher.stop)();
    let work = || {
        while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop() {
                return;
            }
            if let Err(error) = run_host(launcher, directory, run, host, &stop) {
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                broken.store(true, Ordering::Relaxed);
                return;
            }
        }
    };
    let threads = (launcher.at_once.clamp(1, MAX_AT_ONCE) as usize).min(hosts.len());
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None if (launcher.stop)() => Err(LaunchError::Interrupted),
        None => Ok(()),
    }
}

fn run_host(
    launcher: &HostLauncher<'_>,
    directory: &RunDirectory,
    run: &str,
    host: &str,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), LaunchError> {
    directory.clear_failure(host);
    directory.mark_started(host);
    let limits = CommandLimits { time: launcher.time_limit, max_output_bytes: MAX_REPORT_BYTES, stop };
    let output = run_limited(&mut (launcher.command)(host), Input::HeldOpen, &limits);
    directory.clear_started(host);
    let output =
        output.map_err(|error| LaunchError::CannotStart { program: launcher.program.to_owned(), error })?;
    if output.end == CommandEnd::Stopped {
        return Ok(());
    }
    match report_of(&output, launcher, host, run) {
        Ok((report, failure)) => {
            directory.write_report(host, report)?;
            (launcher.on_end)(host, failure.as_deref());
        }
        Err(reason) => {
            directory.write_failure(host, &reason)?;
            (launcher.on_end)(host, Some(&reason));
        }
    }
    Ok(())
}

/// Returns the report in the output of a host with the failure of its command, or why it has none.
fn report_of<'a>(
    output: &'a CapturedOutput,
    launcher: &HostLauncher<'_>,
    host: &str,
    run: &str,
) -> Result<(&'a str, Option<String>), String> {
    let framed = frame::decode(&output.stdout);
    let text = framed.map_err(|error| {
        let stderr = output.stderr_line().map(|line| format!(": {line}")).unwrap_or_default();
        let older = older_program(&output.stderr);
        match (&error, output.end) {
            // ssh reports errors of its own; it has none of a program that a signal ended.
            (FrameError::NoFrame(_), CommandEnd::Exited(SSH_FAILED)) if !stderr.is_empty() => {
                format!("{} failed{stderr}", launcher.program)
            }
            (FrameError::NoFrame(_), CommandEnd::Exited(NOT_FOUND)) => {
                format!("numaio is not installed on the host{stderr}")
            }
            (FrameError::NoFrame(_), CommandEnd::Exited(2)) if older.is_some() => older.unwrap_or_default(),
            (_, CommandEnd::Exited(SSH_FAILED)) if stderr.is_empty() => {
                format!("{error}; the connection was lost, or a signal ended numaio on the host")
            }
            (_, CommandEnd::Exited(status)) if SIGNALED.contains(&status) => {
                format!("{error}; signal {} ended numaio on the host", status - SIGNALED.start() + 1)
            }
            (_, CommandEnd::Exited(0)) => format!("{error}{stderr}"),
            _ => format!("{error}; {} {}", launcher.program, output.describe_end(launcher.time_limit)),
        }
    })?;
    let report = HostReport::from_json(text).map_err(|error| format!("its report is not valid: {error}"))?;
    match report.host == host && report.run == run {
        true => Ok((text, report.failure)),
        false => Err(format!("it returned the report of host '{}'", report.host.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::{run_of, Scratch};
    use crate::launch::run_directory::StoredReport;
    use std::collections::BTreeMap;

    fn report(host: &str, failure: Option<&str>) -> String {
        let report: HostReport = HostReport {
            schema: numaio_schema::HOST_REPORT_SCHEMA.to_owned(),
            numaio: "0.1.0".to_owned(),
            host: host.to_owned(),
            machine_id: None,
            run: "r1".to_owned(),
            started_at: 1,
            finished_at: 2,
            command: Vec::new(),
            topology: numaio_schema::TopologyDocument::with_time(Default::default(), None),
            conditions: Default::default(),
            diagnosis: None,
            documents: Vec::new(),
            failure: failure.map(str::to_owned),
        };
        serde_json::to_string(&report).expect("JSON")
    }

    /// Runs a shell line for each host, which finds reports in `$DIR/HOST`, and returns the
    /// reasons.
    fn run_lines(lines: &[(&str, &str)]) -> BTreeMap<String, Option<String>> {
        let scratch = Scratch::new();
        let lines: BTreeMap<&str, &str> = lines.iter().copied().collect();
        let hosts: Vec<String> = lines.keys().map(|host| (*host).to_owned()).collect();
        let names: Vec<&str> = lines.keys().copied().collect();
        for host in &hosts {
            std::fs::write(scratch.0.join(host), frame::encode(&report(host, None))).expect("a file");
        }
        let directory = RunDirectory::create(&scratch.0.join("runs"), &run_of(&names)).expect("a run");
        let command = |host: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", lines[host]]).env("DIR", &scratch.0);
            shell
        };
        let ends: Mutex<BTreeMap<String, Option<String>>> = Mutex::default();
        let on_end = |host: &str, reason: Option<&str>| {
            ends.lock().expect("a lock").insert(host.to_owned(), reason.map(str::to_owned));
        };
        let launcher = HostLauncher {
            command: &command,
            program: "ssh",
            at_once: 3,
            time_limit: Duration::from_secs(2),
            stop: &|| false,
            on_end: &on_end,
        };
        run_hosts(&launcher, &directory, "r1", &hosts).expect("a run");
        let ends = ends.into_inner().expect("a lock");
        for (host, reason) in &ends {
            assert_eq!(directory.failure(host), *reason, "{host}");
            let stored = directory.report(host, "r1");
            assert_eq!(stored == StoredReport::Absent, reason.is_some(), "{host}: {stored:?}");
            assert!(!directory.is_started(host));
        }
        ends
    }

    #[test]
    fn each_outcome_is_recorded_with_its_reason() {
        let ends = run_lines(&[
            ("good", "echo motd; cat $DIR/good; exit 1"),
            ("refused", "echo 'connect to host refused port 22: Connection refused' >&2; exit 255"),
            ("absent", "echo 'sh: numaio: not found' >&2; exit 127"),
            ("older", "echo \"error: unrecognized subcommand 'fleet'\" >&2; exit 2"),
            ("noisy", "echo Welcome"),
            ("half", "head -c 200 $DIR/half; exit 255"),
            ("other", "cat $DIR/good"),
            ("silent", "sleep 1000"),
            ("killed", "kill -9 $$"),
            ("killed-by-shell", "exit 137"),
            ("killed-by-ssh", "exit 255"),
        ]);
        let reason = |host: &str| ends[host].as_deref().unwrap_or("measured");
        assert_eq!(reason("good"), "measured");
        assert_eq!(reason("refused"), "ssh failed: connect to host refused port 22: Connection refused");
        assert_eq!(reason("absent"), "numaio is not installed on the host: sh: numaio: not found");
        assert_eq!(reason("older"), "its numaio is older and has no 'fleet host-report'");
        assert_eq!(reason("noisy"), "no report in its output, which begins with 'Welcome'");
        assert!(reason("half").starts_with("its report is incomplete: "), "{}", reason("half"));
        let lost = "; the connection was lost, or a signal ended numaio on the host";
        assert!(reason("half").ends_with(lost), "{}", reason("half"));
        assert_eq!(reason("killed-by-ssh"), format!("no report in its output{lost}"));
        assert_eq!(reason("killed-by-shell"), "no report in its output; signal 9 ended numaio on the host");
        assert_eq!(reason("other"), "it returned the report of host 'good'");
        assert_eq!(reason("silent"), "no report in its output; ssh did not exit within 2 s");
        assert_eq!(reason("killed"), "no report in its output; ssh was killed by signal 9");
    }

    #[test]
    fn interrupt_leaves_hosts_without_a_result() {
        let scratch = Scratch::new();
        let directory = RunDirectory::create(&scratch.0, &run_of(&["n1"])).expect("a run");
        let command = |_: &str| {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000");
            sleep
        };
        let polls = AtomicUsize::new(0);
        let launcher = HostLauncher {
            command: &command,
            program: "ssh",
            at_once: 1,
            time_limit: Duration::from_secs(60),
            stop: &|| polls.fetch_add(1, Ordering::Relaxed) > 2,
            on_end: &|_, _| panic!("the host did not end"),
        };
        let result = run_hosts(&launcher, &directory, "r1", &["n1".to_owned()]);
        assert!(matches!(result, Err(LaunchError::Interrupted)));
        assert_eq!((directory.report("n1", "r1"), directory.failure("n1")), (StoredReport::Absent, None));
    }
}
