//! Options of jobs on one node.

use crate::launch::host_report::host_arguments;
use numaio_linux::ssh_command::command_words;
use numaio_schema::{FleetRun, SlurmLaunch};
use std::process::Command;

/// Returns the name of the jobs of a run.
pub fn job_name(run: &FleetRun) -> String {
    format!("numaio-{}", run.id)
}

/// Returns the options that sbatch and srun share: one task that has a node for itself.
pub(super) fn job_options(run: &FleetRun, launch: &SlurmLaunch) -> Vec<String> {
    let minutes = run.time_limit_s.div_ceil(60);
    let mut options = vec![
        format!("--job-name={}", job_name(run)),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        "--exclusive".to_owned(),
        // All memory: with a default per CPU, buffers would exceed the limit of the job.
        "--mem=0".to_owned(),
        format!("--time={minutes}"),
    ];
    options.extend(launch.partition.iter().map(|partition| format!("--partition={partition}")));
    options.extend(launch.options.iter().cloned());
    options
}

/// Returns the command that measures on a node and returns the report on stdout.
pub fn srun_command(run: &FleetRun, launch: &SlurmLaunch, host: &str) -> Command {
    let mut command = Command::new("srun");
    command.args(job_options(run, launch));
    // The task may use all CPUs of the node.
    command.args([&format!("--nodelist={host}"), "--cpu-bind=none", "--quiet"]);
    command.args(command_words(&run.remote_numaio)).args(host_arguments(run, host));
    command
}
