//! Commands that move files run in a child process: an interrupt then ends the command even if a
//! thread waits for storage that does not respond.

use crate::args::{Args, Command};
use crate::commands::jobs::JobAction;
use crate::failure::transfer::RESUME_HINT;
use crate::failure::{self, Failure};
use crate::output;
use numaio_linux::supervisor::{self, ChildEnd};
use std::process::ExitCode;

/// Continues a command that moves files in a child process. Returns its exit status in the process
/// that the user started, and `None` where the command is to be run.
pub fn supervise(args: &Args) -> Option<ExitCode> {
    let moves_files = match &args.command {
        // sshd closes the connection when the remote side is to stop.
        Command::Copy(copy) => copy.restrict.restrict.is_none(),
        Command::Jobs(jobs) => matches!(jobs.action, Some(JobAction::Resume { .. })),
        _ => false,
    };
    if !moves_files {
        return None;
    }
    // Without a child process the command runs as usual.
    let child = supervisor::fork().ok()??;
    let report_slow_stop = || {
        output::remark(
            &args.common,
            "waiting for operations in progress; a second interrupt ends numaio without waiting",
        );
    };
    Some(match child.wait(report_slow_stop) {
        Ok(ChildEnd::Exited(status)) => ExitCode::from(status),
        Ok(ChildEnd::Killed { signal }) => exit_by(signal),
        Ok(ChildEnd::Stuck { signal, pid, threads }) => {
            output::report_failure(&stuck(pid, threads));
            exit_by(signal)
        }
        Err(error) => output::report_failure(&Failure::new(error)),
    })
}

/// The failure of a process that cannot exit.
fn stuck(pid: u32, threads: usize) -> Failure {
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    Failure::new(format!(
        "interrupted, but process {pid} cannot exit yet: {threads} wait for storage that does not respond"
    ))
    .hint(format!("it exits when the storage responds or is unmounted (umount -f); then {RESUME_HINT}"))
}

fn exit_by(signal: i32) -> ExitCode {
    supervisor::die_by(signal);
    // Shells use this status for a program that a signal ended.
    ExitCode::from(failure::SIGNALED.saturating_add(u8::try_from(signal).unwrap_or_default()))
}
