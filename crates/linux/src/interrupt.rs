//! Interruption by signals: the first SIGINT, SIGTERM or SIGHUP requests a stop, the next one
//! kills.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// Time of the first signal in milliseconds of the monotonic clock; 0 if none.
static FIRST_SIGNAL_MS: AtomicU64 = AtomicU64::new(0);

/// Signals within this time of the first belong to the same request: timeout(1) signals a process
/// and then its group, and a closed terminal causes signals of the kernel and the shell.
const SAME_REQUEST_MS: u64 = 500;

/// Ctrl-C, a stop by a service manager, and a lost terminal or connection.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

const HANDLER: extern "C" fn(libc::c_int) = handle_signal;

/// Installs handlers: the first signal makes [`interrupted`] true, and running workloads return
/// [`ProbeError::Interrupted`](numaio_machine::probe::ProbeError::Interrupted). A later one, of any
/// kind, has its default action. Signals ignored by the parent, as under nohup(1), stay ignored.
/// Exceeding RLIMIT_FSIZE becomes an ordinary error (setrlimit(2)) in this process, but not in its
/// children.
///
/// # Errors
/// I/O errors.
pub fn install() -> io::Result<()> {
    for signal in SIGNALS {
        if disposition(signal, None)? != libc::SIG_IGN {
            disposition(signal, Some(HANDLER as libc::sighandler_t))?;
        }
    }
    disposition(libc::SIGXFSZ, Some(ignore_signal as extern "C" fn(libc::c_int) as libc::sighandler_t))
        .map(drop)
}

/// As [`install`], for a service: SIGHUP makes [`hung_up`] true instead of stopping it.
///
/// # Errors
/// I/O errors.
pub fn install_for_service() -> io::Result<()> {
    install()?;
    disposition(libc::SIGHUP, Some(handle_hang_up as extern "C" fn(libc::c_int) as libc::sighandler_t))?;
    Ok(())
}

/// Returns whether SIGHUP arrived since the last call.
pub fn hung_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Returns whether a stop was requested.
pub fn interrupted() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Requests a stop, like a signal.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Signal handler: uses only calls allowed by signal-safety(7).
extern "C" fn handle_signal(signal: libc::c_int) {
    request();
    let now = monotonic_ms();
    match FIRST_SIGNAL_MS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => return,
        Err(first) if now.saturating_sub(first) < SAME_REQUEST_MS => return,
        Err(_) => {}
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

/// Returns milliseconds of the monotonic clock, at least 1.
fn monotonic_ms() -> u64 {
    // SAFETY: timespec is a plain C struct for which all-zero bytes are valid.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the struct lives through the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// Does nothing, so that the offending call fails.
extern "C" fn ignore_signal(_: libc::c_int) {}

/// Signal handler as [`handle_signal`].
extern "C" fn handle_hang_up(_: libc::c_int) {
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
    new.sa_flags = libc::SA_RESTART;
    let new = if handler.is_some() { &raw const new } else { std::ptr::null() };
    // SAFETY: both pointers are null or point to structs that live through the call; a handler is
    // async-signal-safe or a constant of the C library.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}
