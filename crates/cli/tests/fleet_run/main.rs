//! `numaio fleet run`, `status` and `resume`, on a real Slurm cluster and through ssh.

mod host_report;
mod slurm;
mod ssh;
mod sshd;
#[path = "../support/mod.rs"]
mod support;

use numaio_schema::{FleetHostState, FleetRun, FleetStatus, HostReport};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::CommandOutput;

/// Returns the only run below a directory.
fn only_run(base: &Path) -> PathBuf {
    let mut runs: Vec<PathBuf> =
        fs::read_dir(base).expect("runs").map(|entry| entry.expect("a run").path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

fn read_run(directory: &Path) -> FleetRun {
    FleetRun::from_json(&fs::read_to_string(directory.join("run.json")).expect("a run")).expect("a run")
}

fn read_report(directory: &Path, host: &str) -> HostReport {
    let path = directory.join("hosts").join(format!("{host}.json"));
    HostReport::from_json(&fs::read_to_string(path).expect("a report")).expect("a report")
}

/// Parses the output of `numaio fleet status --json`: state and reason of each host.
fn states(output: &CommandOutput) -> BTreeMap<String, (FleetHostState, String)> {
    let status =
        FleetStatus::from_json(&output.out).unwrap_or_else(|error| panic!("{error}: {}", output.err));
    assert_eq!(output.code, Some(if status.is_complete() { 0 } else { 1 }));
    let hosts = status.hosts.into_iter();
    hosts.map(|host| (host.host, (host.state, host.reason.unwrap_or_default()))).collect()
}
