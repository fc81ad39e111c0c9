//! Asking a process of ours to end, and waiting until it has; starting this program anew.

use crate::Root;
use numaio_machine::process;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A process that runs, held so that another one with its number, once it is gone, is never taken for it
/// (`pidfd_open(2)`, Linux 5.3).
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// The process with this number that began at this time, in clock ticks since the machine was started; none if it
    /// has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn find(root: &Root, pid: u32, start_time: u64) -> io::Result<Option<Self>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let held = match pidfd_open(number, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            held => held?,
        };
        // It is looked at while we hold it, so both are about the same process.
        Ok((process::began(root, pid) == Some(start_time)).then_some(Self(held)))
    }

    /// A child that was not waited for yet, so no other process has its number.
    ///
    /// # Errors
    /// The kernel's.
    pub fn child(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Asks it to end, as Ctrl-C does: by SIGTERM, since what runs in the background may have SIGINT ignored.
    ///
    /// # Errors
    /// The kernel's: it may be another user's.
    pub fn interrupt(&self) -> io::Result<()> {
        pidfd_send_signal(&self.0, Signal::TERM)?;
        self.send_continue();
        Ok(())
    }

    /// Has one that was stopped, as by Ctrl-Z, go on: it hears nothing before. Others may be gone by now.
    pub fn send_continue(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::CONT);
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// The kernel's: it may be another user's.
    pub fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::KILL)?)
    }

    /// Waits for its end; tells whether it came in time.
    ///
    /// # Errors
    /// The kernel's; a signal that comes meanwhile is none.
    pub fn exits_within(&self, limit: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }
}

/// Whether whoever started this program ignores the ends of children.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// From now on the end of a child can be waited for, though whoever started this program has it ignore them: the kernel would neither
/// tell of it nor keep how it ended (wait(2)).
pub fn restore_sigchld_default() {
    // SAFETY: it sets a default, and no handler.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    WAS_IGNORED.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// The ends of children are ignored again, if they were before: for a program that this process becomes or starts. It only calls what may
/// be called between fork and exec.
pub(crate) fn reinstate_ignored_sigchld() {
    if WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: it sets no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}

/// Whether this process may do all that root may.
pub fn is_super_user() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user of this process, to whom its files belong.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The groups that this process is in, of which its user may give one to its files; none if the kernel does not tell.
pub fn groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    let own = rustix::process::getegid();
    others.into_iter().chain([own]).map(|group| group.as_raw()).collect()
}

/// This program, also if its file was replaced meanwhile (proc_pid_exe(5)).
pub fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_asked_to_end_and_no_other_is_taken_for_it() {
        let root = Root::live().expect("a root");
        // It ends with this test, however that ends.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = child.id();
        let start_time = process::began(&root, pid).expect("it runs");
        assert!(ProcessHandle::find(&root, pid, start_time + 1).expect("asked").is_none());
        let running = ProcessHandle::find(&root, pid, start_time).expect("asked").expect("it runs");
        assert!(!running.exits_within(Duration::ZERO).expect("waited"));
        running.interrupt().expect("allowed");
        assert!(running.exits_within(Duration::from_secs(600)).expect("waited"));
        // Nobody has asked how it ended, but it is gone.
        assert_eq!(process::began(&root, pid), None);
        assert!(!child.wait().expect("ended").success());
        assert!(ProcessHandle::find(&root, pid, start_time).expect("asked").is_none());
    }
}
