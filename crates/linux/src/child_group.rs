//! A program of ours that Ctrl-C does not reach, and that is ended with whatever it started.

use rustix::io::retry_on_intr;
use rustix::process::{kill_process, kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long it may take to set right what it changed, as the echo of a terminal, when it is asked to end.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A program that runs so.
#[derive(Debug)]
pub struct ChildGroup {
    /// The program itself, with its streams.
    pub child: Child,
    /// Whether it leads a process group of its own.
    is_group_leader: bool,
}

impl ChildGroup {
    /// Starts it. Where there is a terminal it stays in our process group, so that it can ask something there (any other
    /// group is stopped when it reads, see `termios(3)` and SIGTTIN in `signal(7)`), and has SIGINT ignored. Without one
    /// it gets a group of its own, which a signal to ours, as of timeout(1), leaves alone.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if there is no such program.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let is_group_leader = File::open("/dev/tty").is_err();
        match is_group_leader {
            true => drop(command.process_group(0)),
            false => ignore_interrupt(command),
        }
        Ok(Self { child: command.spawn()?, is_group_leader })
    }

    /// How it ended; none if it runs.
    ///
    /// # Errors
    /// The kernel's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to end, and kills it if it does not; gives how it ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn terminate(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        // It was not waited for yet, so nobody else has its number, nor that of its group. An error: it has just ended.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        let asked = Instant::now();
        while is_running(pid)? && asked.elapsed() < TERMINATE_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = kill_process(pid, Signal::KILL);
        if self.is_group_leader {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.child.wait()
    }
}

/// Whether a child runs, which is not waited for by that.
fn is_running(child: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(retry_on_intr(|| waitid(WaitId::Pid(child), look))?.is_none())
}

/// Has SIGINT ignored by a program, which then keeps it so (`signal(7)`); ssh does.
fn ignore_interrupt(command: &mut Command) {
    // SAFETY: between fork and exec only signal(2) is called, which is async-signal-safe, and SIG_IGN is a constant of
    // the C library.
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

    /// A shell that does not end when it is asked to, and waits for another program; both hold our pipe.
    const STUBBORN: &str = "trap '' TERM; cat <&3 & echo ready; wait; wait";

    #[test]
    fn it_is_ended_with_what_it_started() {
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
            // With a terminal the other program ends with what it reads.
            drop(stdin);
        }
        // The pipe ends when nobody holds it any more.
        assert_eq!(stdout.read(&mut ready).expect("an end"), 0);
    }
}
