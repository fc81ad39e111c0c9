//! Elapsed time and CPU time in nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Returns the nanoseconds elapsed since a moment.
pub fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of threads that do not belong to the measured workload, in nanoseconds.
static EXCLUDED_NS: AtomicU64 = AtomicU64::new(0);

/// Excludes the CPU time of the calling thread from [`cpu_ns`], as far as it was added.
pub struct ExcludedThread(u64);

impl ExcludedThread {
    /// Starts with the calling thread's CPU time so far.
    pub fn start() -> Self {
        Self(thread_cpu_ns())
    }

    /// Adds the thread's CPU time since the last call.
    pub fn add(&mut self) {
        let now = thread_cpu_ns();
        EXCLUDED_NS.fetch_add(now.saturating_sub(self.0), Ordering::Relaxed);
        self.0 = now;
    }
}

/// Returns the CPU time of the calling thread in nanoseconds (clock_gettime(2)).
fn thread_cpu_ns() -> u64 {
    // SAFETY: timespec is a plain C struct for which all bytes zero is a value.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call, which cannot fail for this
    // clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the user and system CPU time of this process in nanoseconds (getrusage(2)), including
/// io_uring's kernel threads, and without [`ExcludedThread`]s.
pub fn cpu_ns() -> u64 {
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime)).saturating_sub(EXCLUDED_NS.load(Ordering::Relaxed))
}
