//! A real Slurm cluster with several nodes on this host.

use super::{CommandOutput, Home, Limited};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

const SCRIPT: &str = include_str!("slurm_cluster.sh");
const PROGRAMS: [&str; 5] = ["slurmctld", "slurmd", "srun", "sinfo", "munged"];

/// A running cluster below a directory, stopped and removed on drop.
pub struct Cluster(PathBuf);

impl Cluster {
    /// Starts a cluster of at most 9 nodes: `n1`, `n2` and so on.
    ///
    /// # Errors
    /// Why it does not start here.
    pub fn start(nodes: u32) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !numaio_linux::process::is_super_user() {
            return Err("a cluster on this host needs root".to_owned());
        }
        if let Some(missing) = PROGRAMS.into_iter().find(|program| !is_installed(program)) {
            return Err(format!("{missing} is not installed"));
        }
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Below the home of a build, munge rejects directories that others can write to.
        let cluster = Self(env::temp_dir().join(format!("numaio-slurm-{process}-{number}")));
        fs::create_dir_all(&cluster.0).map_err(|error| error.to_string())?;
        let port = free_ports(process + number * 401).ok_or("no free ports")?.to_string();
        let output = cluster.script(&["start", &cluster.path(), &nodes.to_string(), &port]);
        match output.code {
            Some(0) => Ok(cluster),
            _ => Err(format!("no cluster on this host: {}", output.err.trim())),
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

    /// Returns a command whose commands of Slurm use this cluster.
    pub fn command(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.0.join("slurm.conf"));
        command
    }

    /// Runs a program in a home.
    pub fn run(&self, home: &Home, program: &str, args: &[&str]) -> CommandOutput {
        let mut command = self.command(home.command(program, args));
        CommandOutput::of(command.limited_output().expect(program))
    }

    /// Runs numaio in a home.
    pub fn numaio(&self, home: &Home, args: &[&str]) -> CommandOutput {
        let mut command = self.command(home.numaio(args));
        CommandOutput::of(command.limited_output().expect("numaio"))
    }

    /// Ends a node and all processes of its jobs as a power failure does.
    pub fn kill_node(&self, node: &str) {
        self.script(&["kill-node", &self.path(), node]).ok();
    }

    /// Starts a node again.
    pub fn start_node(&self, node: &str) {
        self.script(&["start-node", &self.path(), node]).ok();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script(&["stop", &self.path()]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the first of ten free ports, below those that the kernel gives to connections (ip(7),
/// `ip_local_port_range`).
fn free_ports(start: u32) -> Option<u32> {
    let is_free = |port: u32| TcpListener::bind(("127.0.0.1", port as u16)).is_ok();
    (start..start + 1_200)
        .map(|block| 20_000 + block % 1_200 * 10)
        .find(|first| (*first..first + 10).all(is_free))
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.map(|directory| directory.join(program)).any(|path: PathBuf| Path::exists(&path))
}
