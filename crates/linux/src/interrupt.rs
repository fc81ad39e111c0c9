//! Stopping from outside: the first SIGINT, SIGTERM or SIGHUP asks, the next one kills.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// When the first signal came, in milliseconds of the kernel's clock; 0 if none has.
static FIRST_SIGNAL_MS: AtomicU64 = AtomicU64::new(0);

/// What comes so many milliseconds after the first signal is of the same wish: timeout(1) signals a process, and then its group, and
/// where a terminal is closed the kernel and a shell do.
const SAME_REQUEST_MS: u64 = 500;

/// Ctrl-C, a service manager's stop, and a terminal or connection that is gone.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

const HANDLER: extern "C" fn(libc::c_int) = handle_signal;

/// From now on the first of these signals only makes [`interrupted`] true, and running workloads end with
/// [`ProbeError::Interrupted`](numaio_machine::probe::ProbeError::Interrupted). The next one of any kind that is not sent together
/// with it does what it does by default. A signal that is ignored, as under nohup(1), stays ignored. A file that would become larger
/// than RLIMIT_FSIZE allows is an error like others, and no end (setrlimit(2)): so for us alone, not for programs that we start.
///
/// # Errors
/// The kernel's.
pub fn install() -> io::Result<()> {
    for signal in SIGNALS {
        if disposition(signal, None)? != libc::SIG_IGN {
            disposition(signal, Some(HANDLER as libc::sighandler_t))?;
        }
    }
    disposition(libc::SIGXFSZ, Some(ignore_signal as extern "C" fn(libc::c_int) as libc::sighandler_t))
        .map(drop)
}

/// As [`install`], for a service: SIGHUP does not stop it, but makes [`hung_up`] true, each time.
///
/// # Errors
/// The kernel's.
pub fn install_for_service() -> io::Result<()> {
    install()?;
    disposition(libc::SIGHUP, Some(handle_hang_up as extern "C" fn(libc::c_int) as libc::sighandler_t))?;
    Ok(())
}

/// Whether SIGHUP came since it was asked last.
pub fn hung_up() -> bool {
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Whether someone asked to stop.
pub fn interrupted() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Asks to stop, as a signal does; for a deadline or a caller of its own.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// The handler: only calls that signal-safety(7) allows.
extern "C" fn handle_signal(signal: libc::c_int) {
    request();
    let now = monotonic_ms();
    match FIRST_SIGNAL_MS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => return,
        Err(first) if now.saturating_sub(first) < SAME_REQUEST_MS => return,
        Err(_) => {}
    }
    // SIGHUP goes on to mean something else to a service. An error cannot be told here.
    let is_asked = |signal: &libc::c_int| {
        disposition(*signal, None).is_ok_and(|current| current == HANDLER as libc::sighandler_t)
    };
    SIGNALS
        .iter()
        .filter(|signal| is_asked(signal))
        .for_each(|signal| drop(disposition(*signal, Some(libc::SIG_DFL))));
    // SAFETY: it has no memory; the signal comes when this one ends.
    unsafe { libc::raise(signal) };
}

/// Milliseconds of a clock that only goes on, at least 1.
fn monotonic_ms() -> u64 {
    // SAFETY: timespec is a plain C struct for which all bytes zero is a value.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it lives through the call, which fails for no clock that there is.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// The call that was too much fails.
extern "C" fn ignore_signal(_: libc::c_int) {}

/// As [`handle_signal`].
extern "C" fn handle_hang_up(_: libc::c_int) {
    HUNG_UP.store(true, Ordering::Relaxed);
}

/// Gives what a signal does; sets it first to `handler`, if there is one.
fn disposition(signal: libc::c_int, handler: Option<libc::sighandler_t>) -> io::Result<libc::sighandler_t> {
    // SAFETY: sigaction is a plain C struct for which all bytes zero is a value: no handler, empty mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler.unwrap_or(libc::SIG_DFL);
    // Reads and writes go on by themselves; running copies look at the flag.
    new.sa_flags = libc::SA_RESTART;
    let new = if handler.is_some() { &raw const new } else { std::ptr::null() };
    // SAFETY: both pointers are null or point to whole structs that live through the call; a handler is
    // `handle_signal`, which does nothing that is not async-signal-safe, or a constant of the C library.
    match unsafe { libc::sigaction(signal, new, &raw mut old) } {
        0 => Ok(old.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}
