//! Programs that run beside us until all have ended; we pass on what is sent to us.

use super::{command, Program, ProgramBinding};
use crate::process::ignore_children_again;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::Duration;

/// Signals that are passed on. Stopping and continuing by the terminal reaches the whole group by itself.
const FORWARDED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    /// With an exit status.
    Status(u8),
    /// By a signal.
    Signal(i32),
}

/// Programs that were started.
#[derive(Debug)]
pub struct ProgramGroup {
    members: Vec<(u32, Option<ProgramExit>)>,
    /// Readable when one of our signals came; they are blocked otherwise.
    signals: OwnedFd,
    before: libc::sigset_t,
}

impl ProgramGroup {
    /// From now on signals wait for [`ProgramGroup::wait`], so that none is lost between here and the first start.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: sigset_t is plain data, filled by sigemptyset and sigaddset before it is read; both masks live
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

    /// Starts a program in its place; gives its process number.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if there is no such program.
    pub fn start(&mut self, program: &Program, place: &ProgramBinding) -> io::Result<u32> {
        let (place, before) = (place.clone(), self.before);
        let mut command = command(program);
        // SAFETY: between fork and exec only system calls are made, on memory that was allocated before.
        unsafe {
            command.pre_exec(move || {
                // It finds this as it would without us.
                ignore_children_again();
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

    /// Process numbers of all, in the order of their start.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|(pid, _)| *pid).collect()
    }

    /// Process numbers of those that still run, in the order of their start.
    pub fn running(&self) -> Vec<u32> {
        self.members.iter().filter(|(_, ended)| ended.is_none()).map(|(pid, _)| *pid).collect()
    }

    /// How each ended, in the order of their start; none if it still runs.
    pub fn exits(&self) -> Vec<Option<ProgramExit>> {
        self.members.iter().map(|(_, ended)| *ended).collect()
    }

    /// Waits until one of them ends, a signal was passed on, or the time is over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.signals.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = most.map_or(-1, |most| i32::try_from(most.as_millis()).unwrap_or(i32::MAX));
        // SAFETY: one pollfd that lives through the call.
        if unsafe { libc::poll(&raw mut poll, 1, milliseconds) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        while let Some(signal) = self.next_signal() {
            // What the terminal sends reaches the whole group; only what was sent to us alone is passed on.
            let by_terminal = signal.ssi_code == SI_KERNEL;
            if signal.ssi_signo as libc::c_int != libc::SIGCHLD && !by_terminal {
                self.signal(signal.ssi_signo as libc::c_int);
            }
        }
        self.reap();
        Ok(())
    }

    /// Sends a signal to all that still run.
    pub fn signal(&self, signal: libc::c_int) {
        for pid in self.running() {
            // SAFETY: a call without memory, on a child that was not waited for yet.
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
                // It has ended, and how is lost: that is no success.
                *ended = Some(ProgramExit::Status(1));
            }
        }
    }
}

/// `si_code` of what the kernel itself sends, as for Ctrl-C (include/uapi/asm-generic/siginfo.h).
const SI_KERNEL: i32 = 0x80;

/// Ends this process by a signal, as the program that we stand for was ended, so that whoever waits for us sees the
/// same. No core is written: the program's own is.
pub fn exit_by_signal(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain calls on values that live through them; the signal's default action is what we want.
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
