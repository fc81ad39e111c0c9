//! Growing the number of threads for storage with high latency.
//!
//! Remote file systems and distant disks take long for each call but serve many calls at once.
//! Threads that wait for storage cost no CPU time, so there may be more threads than CPUs. Their
//! number grows while operations wait for a thread and threads wait for storage. Threads that wait
//! for a CPU do not count: more threads would only wait for CPUs, too.

use super::compression::cpu_time;
use rustix::time::ClockId;
use std::fs::{self, DirEntry};
use std::time::{Duration, Instant};

/// Observation time before the number of threads may grow.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Observation of how threads spend their time.
#[derive(Debug)]
pub(super) struct Growth {
    /// Maximum number of threads.
    max_threads: usize,
    since: Instant,
    /// Value of [`busy_time`] at the last observation.
    busy_time: Duration,
    /// Whether operations were queued at the last observation.
    was_behind: bool,
}

impl Growth {
    /// Starts an observation with at most `max_threads` threads. The first one never grows, since
    /// its CPU use is unknown.
    pub fn new(max_threads: usize, now: Instant) -> Self {
        Self { max_threads, since: now, busy_time: Duration::ZERO, was_behind: false }
    }

    /// Returns whether an observation is due.
    pub fn is_due(&self, threads: usize, now: Instant) -> bool {
        threads < self.max_threads && now.saturating_duration_since(self.since) >= CHECK_INTERVAL
    }

    /// Returns whether the number of threads should grow by some, given [`busy_time`] and whether
    /// operations are queued. CPU time of other threads counts as well, which makes this
    /// conservative.
    pub fn should_grow(
        &mut self,
        (threads, added): (usize, usize),
        now: Instant,
        busy_time: Duration,
        is_behind: bool,
    ) -> bool {
        let passed = now.saturating_duration_since(self.since) * threads as u32;
        let worked = busy_time.saturating_sub(self.busy_time);
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        (self.since, self.busy_time) = (now, busy_time);
        was_behind && is_behind && worked < passed / 4 && threads + added <= self.max_threads
    }
}

/// Returns how long threads of this process ran or waited for a CPU: the first two fields of
/// `schedstat`, in nanoseconds (Documentation/scheduler/sched-stats.rst). CPU time alone where the
/// kernel does not report it.
pub(super) fn busy_time() -> Duration {
    let of = |task: DirEntry| parse_schedstat(&fs::read_to_string(task.path().join("schedstat")).ok()?);
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(of).sum()).max(cpu_time(ClockId::ProcessCPUTime))
}

/// Parses nanoseconds on a CPU and waiting for one from a `schedstat`.
fn parse_schedstat(schedstat: &str) -> Option<u64> {
    let mut times = schedstat.split_ascii_whitespace().map_while(|time| time.parse::<u64>().ok());
    Some(times.next()? + times.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the final number of threads that are busy for part of their time.
    fn grown(part: f64, always: bool) -> usize {
        let (mut now, mut busy_time, mut threads) = (Instant::now(), Duration::ZERO, 4);
        let mut growth = Growth::new(16, now);
        for look in 0..10 {
            assert!(!growth.is_due(threads, now));
            now += CHECK_INTERVAL;
            busy_time += (CHECK_INTERVAL * threads as u32).mul_f64(part);
            if growth.is_due(threads, now)
                && growth.should_grow((threads, threads), now, busy_time, always || look % 2 == 0)
            {
                threads *= 2;
            }
        }
        threads
    }

    #[test]
    fn threads_waiting_for_storage_multiply() {
        assert_eq!(grown(0.05, true), 16);
        assert_eq!(grown(0.5, true), 4, "threads are busy");
        assert_eq!(grown(0.05, false), 4, "the queue is sometimes empty");
    }

    #[test]
    fn waiting_for_a_cpu_counts_as_busy() {
        assert_eq!(
            [parse_schedstat("5 7 1\n"), parse_schedstat("5"), parse_schedstat("")],
            [Some(12), None, None]
        );
        // Only this thread: counters of other threads vanish when they exit.
        let busy_time = || parse_schedstat(&fs::read_to_string("/proc/thread-self/schedstat").ok()?);
        let (Some(before), began) = (busy_time(), Instant::now()) else { return };
        while began.elapsed() < Duration::from_millis(50) {}
        let lasted = busy_time().expect("times") - before;
        assert!(lasted > 25_000_000, "the thread never slept: {lasted} ns");
    }

    #[test]
    fn growth_stops_at_the_limit() {
        let now = Instant::now();
        let mut growth = Growth::new(7, now);
        let later = now + CHECK_INTERVAL;
        assert!(growth.is_due(4, later) && !growth.is_due(7, later));
        assert!(!growth.should_grow((4, 4), later, Duration::ZERO, true));
        assert!(
            !growth.should_grow((4, 4), later + CHECK_INTERVAL, Duration::ZERO, true),
            "eight exceed the limit"
        );
    }
}
