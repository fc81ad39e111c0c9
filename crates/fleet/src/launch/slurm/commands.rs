//! Commands of Slurm.

use crate::launch::limited_command::{stdout_of, CommandLimits, Input};
use crate::launch::LaunchError;
use std::process::Command;
use std::time::Duration;

/// Time limit of a command of Slurm. A busy controller replies within its `MessageTimeout`, 10 s by
/// default, and commands retry.
const COMMAND_TIME: Duration = Duration::from_secs(120);
/// Maximum output of a command of Slurm in bytes: 200,000 jobs with lines of 600 bytes.
const MAX_OUTPUT_BYTES: usize = 128 << 20;

/// Runs a command of Slurm and returns its stdout.
pub(super) fn run(program: &str, args: &[&str], input: Input<'_>) -> Result<String, LaunchError> {
    let stop = || false;
    let limits = CommandLimits { time: COMMAND_TIME, max_output_bytes: MAX_OUTPUT_BYTES, stop: &stop };
    // Times and numbers of Slurm's commands do not depend on the user's settings of the format.
    let mut command = Command::new(program);
    command.args(args).env_remove("SQUEUE_FORMAT").env_remove("SQUEUE_FORMAT2").env_remove("SINFO_FORMAT");
    command.env_remove("SQUEUE_STATES").env_remove("SQUEUE_USERS").env_remove("SQUEUE_PARTITION");
    stdout_of(&mut command, input, &limits)
}

/// Expands a host list such as `n[1-4,7]`.
pub(super) fn expand(nodes: &str) -> Result<Vec<String>, LaunchError> {
    let text = run("scontrol", &["show", "hostnames", nodes], Input::Empty)?;
    Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// Cancels one job, which may have ended.
pub(super) fn cancel_job(id: &str) {
    let _ = run("scancel", &[id], Input::Empty);
}
