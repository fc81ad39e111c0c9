//! Interruption by signals: the first SIGINT, SIGTERM or SIGHUP requests a stop, the next one
//! kills.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

static REQUESTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// Whether a requested stop waits for the end of [`defer`].
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// Time of the first signal in milliseconds of the monotonic clock; 0 if none.
static FIRST_SIGNAL_MS: AtomicU64 = AtomicU64::new(0);

/// Signals within this time of the first belong to the same request: timeout(1) signals a process
/// and then its group, and a closed terminal causes signals of the kernel and the shell.
pub const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Signal by which a supervised process requests its own end, and by which the supervisor ends it.
pub(crate) const END: libc::c_int = libc::SIGUSR1;

/// Process ID of the supervisor; 0 in a process without one.
static SUPERVISOR: AtomicI32 = AtomicI32::new(0);

/// Descriptor of `/dev/null` in a supervised process; -1 in others.
static NULL: AtomicI32 = AtomicI32::new(-1);

/// Ctrl-C, a stop by a service manager, and a lost terminal or connection.
pub(crate) const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A handler with the sender of the signal (sigaction(2), `SA_SIGINFO`).
type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

const HANDLER: Handler = handle_signal;

/// Installs handlers: the first signal makes [`interrupted`] true, and running workloads return
/// [`ProbeError::Interrupted`](numaio_machine::probe::ProbeError::Interrupted). A later one, of any
/// kind, has its default action. Signals ignored by the parent, as under nohup(1), stay ignored.
/// Exceeding RLIMIT_FSIZE becomes an ordinary error (setrlimit(2)) in this process, but not in its
/// children.
///
/// In a child of [`supervisor::fork`](crate::supervisor::fork) the supervisor kills the process
/// instead, and the standard streams are closed before that: readers of a pipe would wait for a
/// thread that cannot exit.
///
/// # Errors
/// I/O errors.
pub fn install() -> io::Result<()> {
    for signal in SIGNALS {
        if disposition(signal, None)? != libc::SIG_IGN {
            disposition(signal, Some(HANDLER as libc::sighandler_t))?;
        }
    }
    if SUPERVISOR.load(Ordering::Relaxed) > 0 {
        NULL.store(
            File::options().read(true).write(true).open("/dev/null")?.into_raw_fd(),
            Ordering::Relaxed,
        );
        disposition(END, Some(handle_end as Handler as libc::sighandler_t))?;
    }
    disposition(libc::SIGXFSZ, Some(ignore_signal as Handler as libc::sighandler_t)).map(drop)
}

/// As [`install`], for a service: SIGHUP makes [`hung_up`] true instead of stopping it.
///
/// # Errors
/// I/O errors.
pub fn install_for_service() -> io::Result<()> {
    install()?;
    disposition(libc::SIGHUP, Some(handle_hang_up as Handler as libc::sighandler_t))?;
    Ok(())
}

/// Returns whether SIGHUP arrived since the last call.
pub fn hung_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Returns whether a stop was requested.
pub fn interrupted() -> bool {
    REQUESTED.load(Ordering::Relaxed) && !DEFERRED.load(Ordering::Relaxed)
}

/// Runs work that a requested stop must not cut short: meanwhile [`interrupted`] is false.
pub fn defer<T>(work: impl FnOnce() -> T) -> T {
    DEFERRED.store(true, Ordering::Relaxed);
    let result = work();
    DEFERRED.store(false, Ordering::Relaxed);
    result
}

/// Requests a stop, like a signal.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Makes this process a supervised one, before [`install`].
pub(crate) fn set_supervisor(pid: libc::pid_t) {
    SUPERVISOR.store(pid, Ordering::Relaxed);
}

/// Returns the process that the user started: the supervisor, or this one if it has none.
pub fn started_process() -> u32 {
    let supervisor = u32::try_from(SUPERVISOR.load(Ordering::Relaxed)).unwrap_or(0);
    if supervisor > 0 {
        supervisor
    } else {
        std::process::id()
    }
}

/// Signal handler: uses only calls allowed by signal-safety(7).
extern "C" fn handle_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    request();
    let now = monotonic_ms();
    match FIRST_SIGNAL_MS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => return,
        Err(first) if now.saturating_sub(first) < SAME_REQUEST.as_millis() as u64 => return,
        Err(_) => {}
    }
    let supervisor = SUPERVISOR.load(Ordering::Relaxed);
    if supervisor > 0 {
        // SAFETY: the kernel passes a valid struct to a handler with SA_SIGINFO; the terminal sends
        // signals without a process, which leaves zero.
        let sender = unsafe { (*info).si_pid() };
        // The supervisor passes on its first signal, possibly late, and decides about the second.
        if sender != supervisor {
            // SAFETY: it accesses no memory.
            unsafe { libc::kill(supervisor, END) };
        }
        return;
    }
    // A service keeps its own SIGHUP handler. Errors cannot be reported here.
    let is_asked = |signal: &libc::c_int| {
        disposition(*signal, None).is_ok_and(|current| current == HANDLER as libc::sighandler_t)
    };
    SIGNALS
        .iter()
        .filter(|signal| is_asked(signal))
        .for_each(|signal| drop(disposition(*signal, Some(libc::SIG_DFL))));
    // SAFETY: it accesses no memory; the signal is delivered when this handler returns.
    unsafe { libc::raise(signal) };
}

/// Signal handler that ends a supervised process: detaches the standard streams, so that their
/// readers see the end even if a thread cannot exit.
extern "C" fn handle_end(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let null = NULL.load(Ordering::Relaxed);
    for stream in 0..=2 {
        // SAFETY: it accesses no memory. Closing would let another thread reuse the number.
        unsafe { libc::dup2(null, stream) };
    }
    // SAFETY: it accesses no memory.
    unsafe { libc::raise(libc::SIGKILL) };
}

/// Returns milliseconds of the monotonic clock, at least 1.
fn monotonic_ms() -> u64 {
    // SAFETY: timespec is a plain C struct for which all-zero bytes are valid.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the struct lives through the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// Does nothing, so that the offending call fails.
extern "C" fn ignore_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Signal handler as [`handle_signal`].
extern "C" fn handle_hang_up(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HUNG_UP.store(true, Ordering::Relaxed);
}

/// Returns the action of a signal, after setting it to `handler` if given.
fn disposition(signal: libc::c_int, handler: Option<libc::sighandler_t>) -> io::Result<libc::sighandler_t> {
    // SAFETY: sigaction is a plain C struct for which all-zero bytes are valid: no handler, empty
    // mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler.unwrap_or(libc::SIG_DFL);
    // Reads and writes are restarted; running copies poll the flag.
    new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    let new = if handler.is_some() { &raw const new } else { std::ptr::null() };
    // SAFETY: both pointers are null or point to structs that live through the call; a handler is
    // async-signal-safe or a constant of the C library.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}
