//! Signaling and awaiting processes; running this program again.

use crate::Root;
use numaio_machine::process;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{
    getrlimit, pidfd_open, pidfd_send_signal, setrlimit, Pid, PidfdFlags, Resource, Rlimit, Signal,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A running process, held by a descriptor, so that a reused process id is never mistaken for it
/// (`pidfd_open(2)`, Linux 5.3).
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Finds a process by its id and start time, in clock ticks since boot; none if it has exited.
    ///
    /// # Errors
    /// I/O errors.
    pub fn find(root: &Root, pid: u32, start_time: u64) -> io::Result<Option<Self>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let held = match pidfd_open(number, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            held => held?,
        };
        // Checked while the descriptor is held, so both refer to the same process.
        Ok((process::start_time(root, pid) == Some(start_time)).then_some(Self(held)))
    }

    /// Opens an unreaped child, whose id cannot be reused.
    ///
    /// # Errors
    /// I/O errors.
    pub fn child(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Asks the process to exit by SIGTERM, since background processes may ignore SIGINT.
    ///
    /// # Errors
    /// I/O error, for example if it belongs to another user.
    pub fn interrupt(&self) -> io::Result<()> {
        pidfd_send_signal(&self.0, Signal::TERM)?;
        self.send_continue();
        Ok(())
    }

    /// Continues a stopped process (Ctrl-Z), which handles signals only then. Ignores exited
    /// processes.
    pub fn send_continue(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::CONT);
    }

    /// Kills the process.
    ///
    /// # Errors
    /// I/O error, for example if it belongs to another user.
    pub fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::KILL)?)
    }

    /// Waits for the process to exit; returns whether it did within `limit`.
    ///
    /// # Errors
    /// I/O errors; an interrupting signal is not an error.
    pub fn exits_within(&self, limit: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }
}

/// Whether the parent of this program ignored SIGCHLD.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Restores the default action of SIGCHLD. If the parent ignored it, the kernel would not report
/// exits of children or keep their status (wait(2)).
pub fn restore_sigchld_default() {
    // SAFETY: it sets the default action, not a handler.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    WAS_IGNORED.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Ignores SIGCHLD again if the parent did, for a program that this process executes. Safe between
/// fork and exec.
pub(crate) fn reinstate_ignored_sigchld() {
    if WAS_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: it sets no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
}

/// A process at the other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketPeer {
    /// Its effective user id when it connected.
    pub user: u32,
    /// Its process id.
    pub process: u32,
}

/// Returns the process that connected a Unix socket (SO_PEERCRED, unix(7)).
///
/// # Errors
/// I/O error of the kernel.
pub fn socket_peer(socket: &UnixStream) -> io::Result<SocketPeer> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(SocketPeer { user: peer.uid.as_raw(), process: peer.pid.as_raw_nonzero().get() as u32 })
}

/// Returns whether this process runs as root.
pub fn is_super_user() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the CPU time of this process so far, in seconds.
pub fn cpu_time_s() -> f64 {
    crate::clock::cpu_ns() as f64 / 1e9
}

/// Returns the effective user id, which owns new files.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Raises the limit of open files of this process to at least `needed`, as far as it may; returns
/// the resulting limit (RLIMIT_NOFILE, getrlimit(2)).
///
/// # Errors
/// I/O error of the kernel.
pub fn raise_file_limit(needed: u64) -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a value there is no limit.
    let (current, highest) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let raised = needed.min(highest);
    if raised <= current {
        return Ok(current);
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })?;
    Ok(raised)
}

/// Returns the groups of this process, which its user may assign to files; empty if unknown.
pub fn groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    let own = rustix::process::getegid();
    others.into_iter().chain([own]).map(|group| group.as_raw()).collect()
}

/// Returns a command for this program, even if its file was replaced (proc_pid_exe(5)).
pub fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn interrupt_reaches_only_the_identified_process() {
        let root = Root::live().expect("a root");
        // The child exits with this test in any case.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = child.id();
        let start_time = process::start_time(&root, pid).expect("it runs");
        assert!(ProcessHandle::find(&root, pid, start_time + 1).expect("asked").is_none());
        let running = ProcessHandle::find(&root, pid, start_time).expect("asked").expect("it runs");
        assert!(!running.exits_within(Duration::ZERO).expect("waited"));
        running.interrupt().expect("allowed");
        assert!(running.exits_within(Duration::from_secs(600)).expect("waited"));
        // The unreaped child no longer counts as running.
        assert_eq!(process::start_time(&root, pid), None);
        assert!(!child.wait().expect("ended").success());
        assert!(ProcessHandle::find(&root, pid, start_time).expect("asked").is_none());
    }
}
