//! `numaio copy --shard` as tasks of a real Slurm cluster, with four nodes on this host.

use crate::shards::{assert_complete, assert_equal_trees, make_tree};
use crate::support::{skipped, CommandOutput, Home, Limited};
use crate::unprivileged::is_root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SCRIPT: &str = include_str!("../support/slurm_cluster.sh");
const PROGRAMS: [&str; 5] = ["slurmctld", "slurmd", "srun", "sinfo", "munged"];
const NODES: &str = "4";

/// A running cluster below a directory, stopped and removed on drop.
struct Cluster(PathBuf);

impl Cluster {
    /// Starts a cluster.
    ///
    /// # Errors
    /// Why it does not start here.
    fn start() -> Result<Self, String> {
        let process = std::process::id();
        // Below the home of a build, munge rejects directories that others can write to.
        let cluster = Self(env::temp_dir().join(format!("numaio-slurm-{process}")));
        fs::create_dir_all(&cluster.0).map_err(|error| error.to_string())?;
        // Below the ports that the kernel gives to connections (ip(7), `ip_local_port_range`).
        let port = (20_000 + process % 1_200 * 10).to_string();
        let output = cluster.script(&["start", &cluster.path(), NODES, &port]);
        match output.code {
            Some(0) => Ok(cluster),
            _ => Err(output.err.trim().to_owned()),
        }
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    fn script(&self, args: &[&str]) -> CommandOutput {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "slurm_cluster.sh"]).args(args);
        CommandOutput::of(command.limited_output().expect("sh"))
    }

    /// Runs a command as a task on each node.
    fn srun(&self, home: &Home, args: &[&str]) -> CommandOutput {
        let tasks = ["-N", NODES, "-n", NODES, env!("CARGO_BIN_EXE_numaio")];
        let mut command = home.command("srun", &[&tasks, args].concat());
        CommandOutput::of(
            command.env("SLURM_CONF", self.0.join("slurm.conf")).limited_output().expect("srun"),
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script(&["stop", &self.path()]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.map(|directory| directory.join(program)).any(|path: PathBuf| Path::exists(&path))
}

#[test]
fn tasks_of_slurm_copy_one_tree_and_finish_completes_it() {
    let home = Home::new();
    if !is_root(&home) {
        return skipped("Slurm: a cluster on this host needs root");
    }
    if let Some(missing) = PROGRAMS.into_iter().find(|program| !is_installed(program)) {
        return skipped(format!("Slurm: {missing} is not installed"));
    }
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return skipped(format!("Slurm: no cluster on this host: {why}")),
    };
    make_tree(&home);
    let mut summaries: Vec<String> = cluster
        .srun(&home, &["copy", "-a", "--shard", "src/", "dst"])
        .ok()
        .lines()
        .map(|line| line.split(':').next().unwrap_or_default().to_owned())
        .collect();
    summaries.sort();
    assert_eq!(summaries, ["shard 1/4", "shard 2/4", "shard 3/4", "shard 4/4"]);
    home.file("dst/extra", "");
    assert_complete(&home.run(&["copy", "-av", "--finish", "--delete", "src/", "dst"]).ok());
    assert_equal_trees(&home, "src", "dst");
}
