//! numaio on another host, started by the system's ssh: its configuration, agent and jump hosts come free.

use crate::failure::Failure;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Exit statuses of ssh and of shells that found no such program.
const SSH_FAILED: i32 = 255;
const NOT_FOUND: i32 = 127;
const LOOK_EACH: Duration = Duration::from_millis(5);

/// The numaio of another host with some arguments; `ssh` is the program that gets there.
pub fn command(ssh: impl AsRef<OsStr>, host: &str, numaio: &str, args: &[&str]) -> Command {
    let mut command = Command::new(ssh);
    // The words are joined and given to a shell there.
    let numaio = format!("'{}'", numaio.replace('\'', r"'\''"));
    command.args(["-T", "-o", "ConnectTimeout=15", "--", host, &numaio]).args(args);
    command
}

/// A numaio that we started, here or there. It is ended when this is dropped, if it does not end by itself once its
/// standard input does.
pub struct Started {
    child: Child,
    patience: Duration,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
}

impl Started {
    /// Starts it; it has `patience` to end by itself.
    ///
    /// # Errors
    /// If the program cannot be started; `hint` says what to do about that.
    pub fn begin(mut command: Command, patience: Duration, hint: &str) -> Result<Self, Failure> {
        // A group of its own: Ctrl-C is ours, and the other side ends when we say so.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            Failure::new(format!("cannot start {program}: {error}")).hint(hint)
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, patience, stdin, stdout })
    }

    /// Its exit status, if it ends soon.
    pub fn status(&mut self) -> Option<i32> {
        self.stdin = None;
        let began = Instant::now();
        while began.elapsed() < self.patience {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            thread::sleep(LOOK_EACH);
        }
        None
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // A connection that hangs is ended by us.
        if self.status().is_none() {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}

/// Adds why what was started with some exit status does not answer; its own words stand on standard error. `instead`
/// goes on after "try ssh HOST true".
pub fn hinted(failure: Failure, host: &str, status: Option<i32>, instead: &str) -> Failure {
    match status {
        Some(SSH_FAILED) => failure.hint(format!("ssh could not get there: try ssh {host} true{instead}")),
        Some(NOT_FOUND) => failure.hint(
            "there is no numaio there, or not on the PATH of an ssh session: copy it, and name it by --remote-numaio",
        ),
        _ => failure.hint("the numaio there may be older: use the same one at both ends"),
    }
}
