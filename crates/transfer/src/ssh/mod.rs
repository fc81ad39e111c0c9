//! Starts numaio on another host by the system's ssh, with the user's configuration, agent and jump
//! hosts.

pub mod attempt_stderr;
pub mod stderr_relay;

use crate::TransferError;
use numaio_linux::child_group::ChildGroup;
pub use numaio_linux::ssh_command::{
    base_command, command_words, joined, numaio_command, program, quoted, remote_command, session_command,
    step_command, AgentForwarding, NOT_FOUND, PROGRAM_VARIABLE, SSH_FAILED,
};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use stderr_relay::{LineSink, StderrRelay};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A process of numaio or ssh that this one has started.
///
/// Dropping it closes its stdin and kills it if it does not exit in time. Its stderr is relayed;
/// lines that were held back are relayed on drop.
pub struct ManagedProcess {
    group: ChildGroup,
    exit_timeout: Duration,
    /// Its stdin.
    pub stdin: Option<ChildStdin>,
    /// Its stdout.
    pub stdout: Option<ChildStdout>,
    stderr: Option<StderrRelay>,
}

impl ManagedProcess {
    /// Starts a process that has `exit_timeout` to exit by itself once its stdin is closed, and
    /// relays its stderr to `sink`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: Command, exit_timeout: Duration, sink: LineSink) -> Result<Self, TransferError> {
        Self::spawn(command, exit_timeout, sink, (None, false))
    }

    /// As [`start`](Self::start); stderr lines are prefixed with the host. If `quiet`, they are
    /// held back until drop.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(
        (host, quiet): (&str, bool),
        command: Command,
        exit_timeout: Duration,
        sink: LineSink,
    ) -> Result<Self, TransferError> {
        Self::spawn(command, exit_timeout, sink, (Some(host.to_owned()), quiet))
    }

    /// Discards the stderr lines that were held back.
    pub fn discard_stderr(&mut self) {
        self.stderr = None;
    }

    fn spawn(
        mut command: Command,
        exit_timeout: Duration,
        sink: LineSink,
        (source, quiet): (Option<String>, bool),
    ) -> Result<Self, TransferError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C interrupts only this process, which then stops the other side.
        let mut group = ChildGroup::spawn(&mut command).map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            TransferError::CannotStart { program, error }
        })?;
        let child = &mut group.child;
        let stderr = child.stderr.take().map(|from| StderrRelay::start(from, source, quiet, sink));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { group, exit_timeout, stdin, stdout, stderr })
    }

    /// Closes stdin and returns the exit status, if the process exits in time.
    pub fn status(&mut self) -> Option<i32> {
        self.stdin = None;
        let began = Instant::now();
        while began.elapsed() < self.exit_timeout {
            if let Ok(Some(status)) = self.group.try_wait() {
                self.drain_stderr();
                return status.code();
            }
            thread::sleep(POLL_INTERVAL);
        }
        None
    }

    /// Waits for the last stderr lines of the exited process.
    fn drain_stderr(&self) {
        if let Some(words) = &self.stderr {
            words.wait();
        }
    }

    /// Kills the process, which closes its streams.
    pub fn kill(&mut self) {
        self.terminate_on_drop();
        drop(self.group.terminate());
    }

    /// Makes dropping this kill the process immediately.
    pub fn terminate_on_drop(&mut self) {
        self.exit_timeout = Duration::ZERO;
    }
}

impl Drop for ManagedProcess {
    fn drop(&mut self) {
        // A connection that hangs is killed.
        let _ = self.status();
        drop(self.group.terminate());
        self.drain_stderr();
        if let Some(words) = self.stderr.take() {
            words.relay_held();
        }
    }
}
