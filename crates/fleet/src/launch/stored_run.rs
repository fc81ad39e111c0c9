//! Checks of a stored run: another user may have written its description.

use super::hosts::{check_host, MAX_HOSTS};
use numaio_linux::ssh_command::remote_command;
use numaio_schema::{FleetLauncher, FleetRun, ReportReturn};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Permitted time limits on a host in seconds: 10 seconds to 7 days.
pub const TIME_LIMITS_S: RangeInclusive<u32> = 10..=7 * 24 * 3600;
/// Permitted numbers of hosts at the same time.
pub const AT_ONCE: RangeInclusive<u32> = 1..=100_000;
/// Greatest number of processes of ssh or srun at the same time.
pub const MAX_AT_ONCE: u32 = 512;
/// Maximum length of the ID of a run or a job.
const MAX_ID_BYTES: usize = 64;

/// Checks the names and numbers of a run as `numaio fleet run` checks its options: they become
/// names of files, and arguments of ssh and of Slurm's commands.
///
/// # Errors
/// What is wrong.
pub fn check_run(run: &FleetRun) -> Result<(), String> {
    if !is_id(&run.id, |first| first.is_ascii_alphanumeric()) {
        return Err(format!("invalid ID '{}'", run.id.escape_debug()));
    }
    remote_command(&run.remote_numaio).map_err(|why| format!("invalid command of numaio: {why}"))?;
    check_range("time limit", run.time_limit_s, TIME_LIMITS_S)?;
    let (at_once, in_foreground) = match &run.launcher {
        FleetLauncher::Ssh { at_once } => (Some(*at_once), true),
        FleetLauncher::Slurm(slurm) => (slurm.at_once, slurm.report_return == ReportReturn::Output),
    };
    let limits = if in_foreground { 1..=MAX_AT_ONCE } else { AT_ONCE };
    at_once.map_or(Ok(()), |at_once| check_range("number of hosts at the same time", at_once, limits))?;
    if run.hosts.len() > MAX_HOSTS {
        return Err(format!("more than {MAX_HOSTS} hosts"));
    }
    let mut names = BTreeSet::new();
    for host in &run.hosts {
        let invalid = |why: &str| format!("invalid host '{}': {why}", host.name.escape_debug());
        check_host(&host.name).map_err(invalid)?;
        if !names.insert(&host.name) {
            return Err(invalid("it is listed twice"));
        }
        if let Some(job) = host.jobs.iter().find(|job| !is_id(job, |first| first.is_ascii_digit())) {
            return Err(invalid(&format!("its job '{}' is not an ID of Slurm", job.escape_debug())));
        }
    }
    Ok(())
}

/// Returns whether a text is neither an option, nor a path, nor several words.
fn is_id(text: &str, is_first: fn(&char) -> bool) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.');
    text.chars().next().is_some_and(|first| is_first(&first))
        && text.len() <= MAX_ID_BYTES
        && text.chars().all(is_plain)
}

fn check_range(what: &str, found: u32, limits: RangeInclusive<u32>) -> Result<(), String> {
    match limits.contains(&found) {
        true => Ok(()),
        false => Err(format!("invalid {what} {found}: expected {} to {}", limits.start(), limits.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::run_of;
    use numaio_schema::SlurmLaunch;

    type Change = fn(&mut FleetRun);

    #[test]
    fn rejects_what_fleet_run_rejects() {
        let changes: [(&str, Change); 12] = [
            ("invalid ID", |run| run.id = "-x".into()),
            ("invalid ID", |run| run.id = "../x".into()),
            ("invalid ID", |run| run.id = String::new()),
            ("does not start with '-'", |run| run.hosts[0].name = "-oProxyCommand=x".into()),
            ("without blanks and '/'", |run| run.hosts[0].name = "a/../../etc/x".into()),
            ("without blanks and '/'", |run| run.hosts[0].name = "n1\u{1b}[2J".into()),
            ("listed twice", |run| run.hosts.push(run.hosts[0].clone())),
            ("not an ID of Slurm", |run| run.hosts[0].jobs = vec!["--all".into()]),
            ("invalid time limit 4294967295", |run| run.time_limit_s = u32::MAX),
            ("at the same time 0", |run| run.launcher = FleetLauncher::Ssh { at_once: 0 }),
            ("at the same time 100000", |run| run.launcher = FleetLauncher::Ssh { at_once: 100_000 }),
            ("command of numaio", |run| run.remote_numaio = "  ".into()),
        ];
        let valid = run_of(&["root@n1", "fe80::1%eth0"]);
        assert_eq!(check_run(&valid), Ok(()));
        for (wanted, change) in changes {
            let mut run = valid.clone();
            change(&mut run);
            let why = check_run(&run).expect_err(wanted);
            assert!(why.contains(wanted), "{why}");
        }
        let mut run = valid;
        run.hosts[0].jobs = vec!["12_3".into(), "7+1".into()];
        run.launcher = FleetLauncher::Slurm(SlurmLaunch {
            partition: None,
            at_once: Some(100_000),
            per_switch: false,
            requeue: false,
            options: Vec::new(),
            report_return: ReportReturn::SharedDirectory,
        });
        assert_eq!(check_run(&run), Ok(()));
    }
}
