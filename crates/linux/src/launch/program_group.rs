//! Programs that run until all have exited, with signals forwarded to them.

use super::program::Program;
use super::program_binding::ProgramBinding;
use crate::process::reinstate_ignored_sigchld;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::Duration;

/// Forwarded signals. Job control signals of the terminal reach the process group directly.
const FORWARDED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Exit outcome of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    /// Exit status.
    Status(u8),
    /// Terminating signal.
    Signal(i32),
}

/// A group of started programs.
#[derive(Debug)]
pub struct ProgramGroup {
    members: Vec<(u32, Option<ProgramExit>)>,
    /// Descriptor that reports pending signals; they are blocked otherwise.
    signals: OwnedFd,
    before: libc::sigset_t,
}

impl ProgramGroup {
    /// Blocks signals until [`ProgramGroup::wait`], so that none is lost before the first start.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        // SAFETY: sigset_t is plain data that sigemptyset and sigaddset initialize; both masks live
        // through the calls.
        unsafe {
            let mut mask: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut mask);
            for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut mask, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const mask, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let descriptor = libc::signalfd(-1, &raw const mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            let signals = OwnedFd::from_raw_fd(descriptor);
            Ok(Self { members: Vec::new(), signals, before })
        }
    }

    /// Starts a program with its binding and returns its process ID.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if the program does not exist.
    pub fn start(&mut self, program: &Program, place: &ProgramBinding) -> io::Result<u32> {
        let (place, before) = (place.clone(), self.before);
        let mut command = program.command();
        // SAFETY: between fork and exec only system calls run, on memory allocated before.
        unsafe {
            command.pre_exec(move || {
                // Restores the disposition that the program would have without numaio.
                reinstate_ignored_sigchld();
                if libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) != 0 {
                    return Err(io::Error::last_os_error());
                }
                place.apply()
            });
        }
        let child = command.spawn()?;
        self.members.push((child.id(), None));
        Ok(child.id())
    }

    /// Returns the process IDs of all programs, in order of their start.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|(pid, _)| *pid).collect()
    }

    /// Returns the process IDs of the running programs, in order of their start.
    pub fn running(&self) -> Vec<u32> {
        self.members.iter().filter(|(_, ended)| ended.is_none()).map(|(pid, _)| *pid).collect()
    }

    /// Returns the exit outcome of each program in order of their start, `None` while it runs.
    pub fn exits(&self) -> Vec<Option<ProgramExit>> {
        self.members.iter().map(|(_, ended)| *ended).collect()
    }

    /// Waits until a program exits, a signal was forwarded or `most` has elapsed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.signals.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = most.map_or(-1, |most| i32::try_from(most.as_millis()).unwrap_or(i32::MAX));
        // SAFETY: one pollfd that lives through the call.
        if unsafe { libc::poll(&raw mut poll, 1, milliseconds) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        while let Some(signal) = self.next_signal() {
            // Signals of the terminal reach the group directly; only others are forwarded.
            let by_terminal = signal.ssi_code == SI_KERNEL;
            if signal.ssi_signo as libc::c_int != libc::SIGCHLD && !by_terminal {
                self.signal(signal.ssi_signo as libc::c_int);
            }
        }
        self.reap();
        Ok(())
    }

    /// Sends a signal to all running programs.
    pub fn signal(&self, signal: libc::c_int) {
        for pid in self.running() {
            // SAFETY: no memory is involved, and the child has not been waited for.
            unsafe { libc::kill(pid as libc::pid_t, signal) };
        }
    }

    fn next_signal(&self) -> Option<libc::signalfd_siginfo> {
        // SAFETY: plain data for which all bytes zero is a value.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most that many bytes into the struct.
        let read = unsafe { libc::read(self.signals.as_raw_fd(), (&raw mut info).cast(), bytes) };
        (read == bytes as isize).then_some(info)
    }

    fn reap(&mut self) {
        for (pid, ended) in self.members.iter_mut().filter(|(_, ended)| ended.is_none()) {
            let mut status = 0;
            // SAFETY: the status lives through the call; the process is our child.
            let found = unsafe { libc::waitpid(*pid as libc::pid_t, &raw mut status, libc::WNOHANG) };
            if found > 0 {
                *ended = Some(match libc::WIFSIGNALED(status) {
                    true => ProgramExit::Signal(libc::WTERMSIG(status)),
                    false => ProgramExit::Status(libc::WEXITSTATUS(status) as u8),
                });
            } else if found < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
                // The exit outcome is lost, which must not count as success.
                *ended = Some(ProgramExit::Status(1));
            }
        }
    }
}

/// `si_code` of signals from the kernel, as for Ctrl-C (include/uapi/asm-generic/siginfo.h).
const SI_KERNEL: i32 = 0x80;

/// Terminates this process with the signal that terminated the program, so that the parent process
/// sees the same outcome. Core dumps are disabled: the program wrote its own.
pub fn exit_by_signal(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the values live through these calls; the signal's default action is intended.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut mask: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        libc::sigaddset(&raw mut mask, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const mask, std::ptr::null_mut());
        libc::raise(signal);
    }
}
