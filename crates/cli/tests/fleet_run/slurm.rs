//! Runs on a real Slurm cluster, with four nodes on this host.

use crate::support::slurm_cluster::Cluster;
use crate::support::{kill, skipped, until, Home, Limited};
use crate::{only_run, read_report, read_run, states};
use numaio_schema::FleetHostState::{self, Failed, Lost, Measured, Missing, Queued, Running};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A cluster with a home, or the reason why the test is skipped.
struct Site {
    cluster: Cluster,
    home: Home,
    runs: PathBuf,
}

impl Site {
    fn new() -> Option<Self> {
        let cluster = match Cluster::start(4) {
            Ok(cluster) => cluster,
            Err(why) => {
                skipped(format!("fleet on Slurm: {why}"));
                return None;
            }
        };
        let home = Home::new();
        let runs = home.0.join("runs");
        Some(Self { cluster, home, runs })
    }

    /// A program that waits forever while file `slow-NODE` exists, and then runs numaio.
    fn slow_numaio(&self) -> String {
        let text = format!(
            "#!/bin/sh\nwhile [ -e '{}'/slow-$SLURMD_NODENAME ]; do sleep 0.1; done\nexec '{}' \"$@\"\n",
            self.home.0.display(),
            env!("CARGO_BIN_EXE_numaio")
        );
        self.home.script("slow-numaio", &text)
    }

    fn start(&self, args: &[&str]) -> PathBuf {
        let runs = self.runs.to_string_lossy().into_owned();
        let fixed = ["fleet", "run", "--on", "slurm", "--shared", &runs];
        self.cluster.numaio(&self.home, &[&fixed, args].concat()).ok();
        only_run(&self.runs)
    }

    fn status(&self, run: &Path) -> Vec<(FleetHostState, String)> {
        let args = ["fleet", "status", "--json", run.to_str().expect("a path")];
        let found = states(&self.cluster.numaio(&self.home, &args));
        assert_eq!(found.keys().collect::<Vec<_>>(), NODES);
        found.into_values().collect()
    }

    fn states(&self, run: &Path) -> Vec<FleetHostState> {
        self.status(run).into_iter().map(|host| host.0).collect()
    }

    fn until_states(&self, run: &Path, expected: [FleetHostState; 4]) {
        until(|| self.states(run) == expected, || format!("{:?}, not {expected:?}", self.status(run)));
    }

    fn resume(&self, run: &Path) -> String {
        self.cluster.numaio(&self.home, &["fleet", "resume", run.to_str().expect("a path")]).ok()
    }

    fn count_jobs(&self, run: &Path) -> Vec<usize> {
        read_run(run).hosts.iter().map(|host| host.jobs.len()).collect()
    }
}

#[test]
fn killed_node_is_lost_and_resume_measures_only_it() {
    let Some(site) = Site::new() else { return };
    let slow = site.home.file("slow-n2", "");
    let run = site.start(&["--remote-numaio", &site.slow_numaio(), "--", "topology"]);
    site.until_states(&run, [Measured, Running, Measured, Measured]);
    site.cluster.kill_node("n2");
    site.until_states(&run, [Measured, Lost, Measured, Measured]);
    assert_eq!(site.status(&run)[1].1, "its node failed");
    let before = NODES.map(|node| (node != "n2").then(|| read_report(&run, node)));

    // The node is still down, so that no job is submitted.
    let printed = site.resume(&run);
    assert!(printed.contains("submitted 0 of 4 hosts"), "{printed}");
    assert_eq!(site.count_jobs(&run), [1, 1, 1, 1]);
    assert!(read_run(&run).hosts[1].unavailable.as_deref().is_some_and(|why| why.contains("down")));

    std::fs::remove_file(slow).expect("removed");
    site.cluster.start_node("n2");
    let idle = || site.cluster.run(&site.home, "sinfo", &["-h", "-n", "n2", "-o", "%T"]).out.trim() == "idle";
    until(idle, || "n2 does not return");
    site.resume(&run);
    site.until_states(&run, [Measured; 4]);
    assert_eq!(site.count_jobs(&run), [1, 2, 1, 1]);
    for (node, before) in NODES.into_iter().zip(before) {
        let report = read_report(&run, node);
        assert_eq!((report.host.as_str(), report.run.as_str()), (node, read_run(&run).id.as_str()));
        assert_eq!(report.documents.len(), 1);
        assert!(before.is_none_or(|before| before == report), "{node} was measured twice");
    }
    let status = site.cluster.numaio(&site.home, &["fleet", "status", &read_run(&run).id]).ok();
    assert!(status.contains("4 hosts: 4 measured"), "{status}");
    assert!(site.resume(&run).contains("no host is failed, lost or missing"));
}

#[test]
fn limit_of_hosts_cancelled_jobs_and_no_second_job_of_a_host() {
    let Some(site) = Site::new() else { return };
    let slow = NODES.map(|node| site.home.file(&format!("slow-{node}"), ""));
    let numaio = site.slow_numaio();
    let run = site.start(&["--at-once", "2", "--remote-numaio", &numaio, "--", "topology"]);
    let count = |state| site.states(&run).into_iter().filter(|found| *found == state).count();
    until(|| count(Running) == 2, || format!("{:?}", site.status(&run)));
    assert_eq!(count(Queued), 2);
    let queued = site.status(&run).into_iter().find(|host| host.0 == Queued).expect("a queued host").1;
    assert_eq!(queued, "it waits for another host (--at-once)");
    let index = site.states(&run).iter().position(|state| *state == Running).expect("a running host");
    let job = read_run(&run).hosts[index].jobs[0].clone();
    site.cluster.run(&site.home, "scancel", &[&job]).ok();
    until(|| count(Lost) == 1, || format!("{:?}", site.status(&run)));
    assert_eq!(site.status(&run)[index].1, "its job was cancelled");

    // Pending and running hosts are not submitted again.
    site.resume(&run);
    let mut expected = [1; 4];
    expected[index] = 2;
    assert_eq!(site.count_jobs(&run), expected);
    assert!(site.resume(&run).contains("no host is failed, lost or missing"));
    slow.iter().for_each(|file| std::fs::remove_file(file).expect("removed"));
    site.until_states(&run, [Measured; 4]);
    assert_eq!(site.count_jobs(&run), expected);
}

#[test]
fn failures_of_hosts_and_drained_nodes_have_reasons() {
    let Some(site) = Site::new() else { return };
    let drain = ["update", "nodename=n4", "state=drain", "reason=bad dimm"];
    site.cluster.run(&site.home, "scontrol", &drain).ok();
    let run = site.start(&["--", "model", "--node", "99"]);
    site.until_states(&run, [Failed, Failed, Failed, Missing]);
    let status = site.status(&run);
    assert!(status[0].1.starts_with("numaio model exited with status 2: "), "{status:?}");
    assert_eq!(status[3].1, "the node is drained: bad dimm");
    let report = read_report(&run, "n1");
    assert!(report.failure.is_some() && report.diagnosis.is_some());
    std::fs::write(run.join("hosts/n2.json"), "{\"schema\": \"numaio/host-rep").expect("a half report");
    assert_eq!(site.states(&run)[1], FleetHostState::Unreadable);
    std::fs::remove_dir_all(&site.runs).expect("removed");

    let run = site.start(&["-w", "n[1-4]", "--remote-numaio", "/nonexistent/numaio", "--", "topology"]);
    site.until_states(&run, [Lost, Lost, Lost, Missing]);
    assert!(site.status(&run)[0].1.contains("not installed"), "{:?}", site.status(&run));

    let unknown = ["fleet", "run", "--on", "slurm", "-w", "n[1-9]", "--", "topology"];
    site.cluster.numaio(&site.home, &unknown).failed(2, &["no node 'n5'", "hint: sinfo"]);
}

#[test]
fn reports_return_by_srun_without_a_shared_directory() {
    let Some(site) = Site::new() else { return };
    let run = site.start(&["--return", "output", "--machine", "amd-2p", "--", "model"]);
    assert_eq!(site.states(&run), [Measured; 4]);
    let report = read_report(&run, "n3");
    assert_eq!(report.machine_id, None, "a recorded machine has none");
    assert_eq!(report.documents[0]["schema"], "numaio/model/1");
    std::fs::remove_dir_all(&site.runs).expect("removed");

    let slow = NODES.map(|node| site.home.file(&format!("slow-{node}"), ""));
    let (runs, numaio) = (site.runs.to_string_lossy().into_owned(), site.slow_numaio());
    let args = ["fleet", "run", "--on", "slurm", "--return", "output", "--shared", &runs];
    let args = [&args, &["--remote-numaio", &numaio, "--", "topology"][..]].concat();
    let mut command = site.cluster.command(site.home.numaio(&args));
    let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("numaio");
    let jobs = || site.cluster.run(&site.home, "squeue", &["-h", "-t", "running", "-o", "%j"]).ok();
    until(|| jobs().lines().count() == 4, jobs);
    let run = only_run(&site.runs);
    assert_eq!(site.states(&run), [Running; 4]);
    let locked = site.cluster.numaio(&site.home, &["fleet", "resume", run.to_str().expect("a path")]);
    locked.failed(1, &["another process launches the run"]);
    kill("-INT", launcher.id());
    let output = launcher.limited_output().expect("numaio");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(130) && err.contains("numaio fleet resume"), "{err}");
    until(|| jobs().is_empty(), jobs);
    slow.iter().for_each(|file| std::fs::remove_file(file).expect("removed"));
    let resumed = site.resume(&run);
    assert!(resumed.contains("4 hosts: 4 measured"), "{resumed}");
}
