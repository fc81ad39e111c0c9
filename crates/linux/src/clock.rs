//! Elapsed time and CPU time in nanoseconds.

use std::time::Instant;

/// Returns the nanoseconds elapsed since a moment.
pub fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the user and system CPU time of this process in nanoseconds (getrusage(2)), including
/// io_uring's kernel threads.
pub fn cpu_ns() -> u64 {
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
