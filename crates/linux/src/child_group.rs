//! A child process that Ctrl-C does not reach, and that is terminated together with its
//! descendants.

use rustix::io::retry_on_intr;
use rustix::process::{kill_process, kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time for the child to exit: after SIGTERM to clean up, for example to restore the echo of a
/// terminal; after SIGKILL, which takes effect at once unless it waits in the kernel.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A child process in its own process group, or with SIGINT ignored.
#[derive(Debug)]
pub struct ChildGroup {
    /// The child process with its streams.
    pub child: Child,
    /// Whether the child leads its own process group.
    is_group_leader: bool,
}

impl ChildGroup {
    /// Spawns a child. With a terminal, it stays in our process group, so that it can prompt (a
    /// background group is stopped when it reads, see `termios(3)` and SIGTTIN in `signal(7)`), and
    /// ignores SIGINT. Without one, it gets its own group, which signals to ours, as by timeout(1),
    /// do not reach.
    ///
    /// # Errors
    /// I/O errors; `NotFound` if the program is missing.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let is_group_leader = File::open("/dev/tty").is_err();
        match is_group_leader {
            true => drop(command.process_group(0)),
            false => ignore_interrupt(command),
        }
        Ok(Self { child: command.spawn()?, is_group_leader })
    }

    /// Returns the exit status; none while the child runs.
    ///
    /// # Errors
    /// I/O errors.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Terminates the child and its group with SIGTERM, then SIGKILL, and returns its exit status.
    ///
    /// # Errors
    /// I/O errors; `TimedOut` for a child that cannot exit, because it waits in the kernel for
    /// storage that does not respond.
    pub fn terminate(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        // The unreaped child keeps its process and group id reserved. Errors mean that it has just
        // exited.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        wait_for_exit(pid)?;
        let _ = kill_process(pid, Signal::KILL);
        if self.is_group_leader {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        wait_for_exit(pid)?;
        self.try_wait()?.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

/// Waits for the exit of a child, for a limited time.
fn wait_for_exit(child: Pid) -> io::Result<()> {
    let asked = Instant::now();
    while is_running(child)? && asked.elapsed() < TERMINATE_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Returns whether a child is running, without reaping it.
fn is_running(child: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(retry_on_intr(|| waitid(WaitId::Pid(child), look))?.is_none())
}

/// Makes a program ignore SIGINT, which persists across exec (`signal(7)`), as ssh does.
fn ignore_interrupt(command: &mut Command) {
    // SAFETY: between fork and exec only signal(2) is called, which is async-signal-safe, and
    // SIG_IGN is a constant of the C library.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGINT, libc::SIG_IGN) {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    /// A shell that ignores SIGTERM and waits for another program; both hold our pipe.
    const STUBBORN: &str = "trap '' TERM; cat <&3 & echo ready; wait; wait";

    #[test]
    fn terminates_child_and_descendants() {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 3<&0; {STUBBORN}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut group = ChildGroup::spawn(&mut command).expect("a shell");
        let mut stdout = group.child.stdout.take().expect("a pipe");
        let mut ready = [0; 6];
        stdout.read_exact(&mut ready).expect("it is ready");
        assert_eq!(group.try_wait().expect("asked"), None);
        let stdin = group.child.stdin.take();
        assert!(!group.terminate().expect("ended").success());
        assert!(group.try_wait().expect("asked").is_some());
        if !group.is_group_leader {
            // With a terminal, the other program exits when its input ends.
            drop(stdin);
        }
        // The pipe ends once no process holds it.
        assert_eq!(stdout.read(&mut ready).expect("an end"), 0);
    }
}
