//! Runs this program in a child process, so that the program can exit while a thread of the child
//! waits for storage that does not respond.
//!
//! The kernel reports the exit of a process only after all of its threads have exited, and a thread
//! in uninterruptible sleep (a request of a stopped FUSE or NFS server) ignores even SIGKILL.

use crate::interrupt::{self, END};
use crate::Root;
use numaio_machine::process;
use std::io;
use std::mem::zeroed;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// How long an ended child may take to exit. One whose threads can exit needs a few milliseconds.
const END_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a clean stop may take before it is reported.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The child process, as seen by its supervisor.
#[derive(Debug)]
pub struct SupervisedChild {
    pid: libc::pid_t,
    /// Signals that the supervisor waits for, all blocked.
    signals: libc::sigset_t,
}

/// How a supervised child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// It exited with this status.
    Exited(u8),
    /// A signal killed it.
    Killed {
        /// Number of the signal.
        signal: i32,
    },
    /// It was killed, and has not exited, because threads wait in the kernel.
    Stuck {
        /// Number of the signal that requested the end.
        signal: i32,
        /// Process ID of the child.
        pid: u32,
        /// Number of its threads in uninterruptible sleep.
        threads: usize,
    },
}

/// Continues this program in a child process; returns the child in the supervisor, and `None` in
/// the child. Call it before threads are started.
///
/// The child is killed when the supervisor is. [`interrupt::install`] in the child leaves the
/// second signal to the supervisor.
///
/// # Errors
/// I/O error if no process can be created.
pub fn fork() -> io::Result<Option<SupervisedChild>> {
    let signals = supervised_signals()?;
    // SAFETY: an all-zero signal set is valid, and is overwritten.
    let mut before: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: both sets live through the call.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, &raw mut before) })?;
    // SAFETY: it takes no arguments and cannot fail.
    let supervisor = unsafe { libc::getpid() };
    // SAFETY: this process has one thread, so that the child may run any code.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            // SAFETY: the set lives through the call.
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
            Err(error)
        }
        0 => {
            interrupt::set_supervisor(supervisor);
            // SAFETY: it accesses no memory.
            check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
            // SAFETY: neither call accesses memory.
            if unsafe { libc::getppid() } != supervisor {
                // The supervisor was killed before the request.
                // SAFETY: as above.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            // SAFETY: the set lives through the call.
            check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, null_mut()) })?;
            Ok(None)
        }
        pid => Ok(Some(SupervisedChild { pid, signals })),
    }
}

/// Kills this process by a signal, as a shell expects of a program that a signal ended. Returns
/// only where the signal has no effect, as in the first process of a container.
pub fn die_by(signal: i32) {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a signal set is a plain struct that sigemptyset initializes; the structs live through
    // the calls, and the default action is not a handler. The child has already dumped its memory.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, null_mut());
        libc::raise(signal);
    }
}

impl SupervisedChild {
    /// Waits for the child, and passes it signals. A second one, later than
    /// [`interrupt::SAME_REQUEST`] after the first, ends it at once.
    ///
    /// `report_slow_stop` is called once if the child is still running a few seconds after the
    /// first signal.
    ///
    /// # Errors
    /// I/O errors.
    pub fn wait(&self, report_slow_stop: impl FnOnce()) -> io::Result<ChildEnd> {
        let mut first: Option<Instant> = None;
        let mut report = Some(report_slow_stop);
        loop {
            let (signal, sender) = self.next_signal(POLL_INTERVAL)?;
            if let Some(end) = self.poll()? {
                return Ok(end);
            }
            let is_second = first.is_some_and(|first| first.elapsed() >= interrupt::SAME_REQUEST);
            match signal {
                END if sender == self.pid => return self.end(libc::SIGTERM),
                signal if !interrupt::SIGNALS.contains(&signal) => {}
                signal if is_second => return self.end(signal),
                signal => {
                    first.get_or_insert_with(Instant::now);
                    self.send(signal);
                    // A stopped child handles the signal only after that.
                    self.send(libc::SIGCONT);
                }
            }
            if first.is_some_and(|first| first.elapsed() > STOP_PATIENCE) {
                if let Some(report) = report.take() {
                    report();
                }
            }
        }
    }

    /// Kills the child, and waits for it as long as its threads can exit.
    fn end(&self, signal: i32) -> io::Result<ChildEnd> {
        for kill in [END, libc::SIGKILL] {
            self.send(kill);
            let began = Instant::now();
            while let Some(left) = END_TIMEOUT.checked_sub(began.elapsed()) {
                if self.poll()?.is_some() {
                    return Ok(ChildEnd::Killed { signal });
                }
                self.next_signal(left.min(Duration::from_millis(20)))?;
            }
        }
        let pid = self.pid.cast_unsigned();
        let threads = Root::live().map_or(0, |root| process::uninterruptible_threads(&root, pid));
        Ok(ChildEnd::Stuck { signal, pid, threads })
    }

    fn send(&self, signal: libc::c_int) {
        // SAFETY: it accesses no memory. The child is not reaped yet, so that its ID is reserved.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Returns the end of the child, if it has ended.
    fn poll(&self) -> io::Result<Option<ChildEnd>> {
        let mut status = 0;
        // SAFETY: the number lives through the call.
        match check(unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) })? {
            0 => Ok(None),
            _ => Ok(Some(child_end(ExitStatus::from_raw(status)))),
        }
    }

    /// Waits for a signal; returns it with the process that sent it, or zeros after `limit`.
    fn next_signal(&self, limit: Duration) -> io::Result<(libc::c_int, libc::pid_t)> {
        let limit = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        // SAFETY: siginfo_t is a plain C struct for which all-zero bytes are valid.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        // SAFETY: all structs live through the call.
        let signal = unsafe { libc::sigtimedwait(&raw const self.signals, &raw mut info, &raw const limit) };
        if signal > 0 {
            // SAFETY: signals of processes set this field, and others leave zero.
            return Ok((signal, unsafe { info.si_pid() }));
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok((0, 0)),
            error => Err(error),
        }
    }
}

fn child_end(status: ExitStatus) -> ChildEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildEnd::Exited(code as u8),
        (None, signal) => ChildEnd::Killed { signal: signal.unwrap_or(libc::SIGKILL) },
    }
}

/// Returns the signals that the supervisor handles. Ignored ones, as under nohup(1), stay ignored:
/// the kernel would queue them while they are blocked.
fn supervised_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: an all-zero signal set is valid.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the set lives through the call.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    for signal in interrupt::SIGNALS.into_iter().chain([END, libc::SIGCHLD]) {
        // SAFETY: as for the set.
        let mut action: libc::sigaction = unsafe { zeroed() };
        // SAFETY: the struct lives through the call.
        check(unsafe { libc::sigaction(signal, null(), &raw mut action) })?;
        if action.sa_sigaction != libc::SIG_IGN {
            // SAFETY: the set lives through the call.
            check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
        }
    }
    Ok(set)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
