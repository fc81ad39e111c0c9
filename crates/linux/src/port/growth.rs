//! More threads for storage that answers late.
//!
//! File systems on other machines, and disks that are far away, take long for each call and many calls at once. A thread that waits
//! for them costs no CPU time, so there may be more threads than CPUs: they become more while work waits for a thread, and threads
//! for the storage. A thread that waits for a CPU does not wait for storage: more of them would only wait for CPUs, too.

use super::compression::cpu_time;
use rustix::time::ClockId;
use std::fs::{self, DirEntry};
use std::time::{Duration, Instant};

/// How long threads are watched before there are more of them.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Watches how threads spend their time.
#[derive(Debug)]
pub(super) struct Growth {
    /// How many threads there may be.
    max_threads: usize,
    since: Instant,
    /// What [`busy_time`] told then.
    busy_time: Duration,
    /// Whether work waited then.
    was_behind: bool,
}

impl Growth {
    /// Up to `max_threads` threads. There are never more by the first look: only from then on it is known how they spend their time.
    pub fn new(max_threads: usize, now: Instant) -> Self {
        Self { max_threads, since: now, busy_time: Duration::ZERO, was_behind: false }
    }

    /// Whether it is time to look.
    pub fn is_due(&self, threads: usize, now: Instant) -> bool {
        threads < self.max_threads && now.saturating_duration_since(self.since) >= CHECK_INTERVAL
    }

    /// Whether there should be twice as many threads, by what [`busy_time`] tells and whether work waits for a thread. Time of other threads
    /// than those that wait for storage counts, too: it makes this rather too careful.
    pub fn should_double(
        &mut self,
        threads: usize,
        now: Instant,
        busy_time: Duration,
        is_behind: bool,
    ) -> bool {
        let passed = now.saturating_duration_since(self.since) * threads as u32;
        let worked = busy_time.saturating_sub(self.busy_time);
        let was_behind = std::mem::replace(&mut self.was_behind, is_behind);
        (self.since, self.busy_time) = (now, busy_time);
        was_behind && is_behind && worked < passed / 4 && 2 * threads <= self.max_threads
    }
}

/// For how long threads of this process had work for a CPU until now, whether they got one or waited for it: the first two numbers of
/// `schedstat` in nanoseconds (Documentation/scheduler/sched-stats.rst). Where the kernel does not tell, CPU time alone.
pub(super) fn busy_time() -> Duration {
    let of = |task: DirEntry| parse_schedstat(&fs::read_to_string(task.path().join("schedstat")).ok()?);
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(of).sum()).max(cpu_time(ClockId::ProcessCPUTime))
}

/// The nanoseconds on a CPU and in wait for one that a `schedstat` tells.
fn parse_schedstat(schedstat: &str) -> Option<u64> {
    let mut times = schedstat.split_ascii_whitespace().map_while(|time| time.parse::<u64>().ok());
    Some(times.next()? + times.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many threads there are in the end where threads work for a part of their time, and whether work always waits.
    fn grown(part: f64, always: bool) -> usize {
        let (mut now, mut busy_time, mut threads) = (Instant::now(), Duration::ZERO, 4);
        let mut growth = Growth::new(16, now);
        for look in 0..10 {
            assert!(!growth.is_due(threads, now));
            now += CHECK_INTERVAL;
            busy_time += (CHECK_INTERVAL * threads as u32).mul_f64(part);
            if growth.is_due(threads, now)
                && growth.should_double(threads, now, busy_time, always || look % 2 == 0)
            {
                threads *= 2;
            }
        }
        threads
    }

    #[test]
    fn threads_that_wait_for_storage_become_more() {
        assert_eq!(grown(0.05, true), 16);
        assert_eq!(grown(0.5, true), 4, "they work");
        assert_eq!(grown(0.05, false), 4, "there is not always something to do");
    }

    #[test]
    fn who_waits_for_a_cpu_is_busy() {
        assert_eq!(
            [parse_schedstat("5 7 1\n"), parse_schedstat("5"), parse_schedstat("")],
            [Some(12), None, None]
        );
        // This thread alone: others of this process end meanwhile, and what is known of them goes with them.
        let busy_time = || parse_schedstat(&fs::read_to_string("/proc/thread-self/schedstat").ok()?);
        let (Some(before), began) = (busy_time(), Instant::now()) else { return };
        while began.elapsed() < Duration::from_millis(50) {}
        let lasted = busy_time().expect("times") - before;
        assert!(lasted > 25_000_000, "it never slept: {lasted} ns");
    }

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let now = Instant::now();
        let mut growth = Growth::new(7, now);
        let later = now + CHECK_INTERVAL;
        assert!(growth.is_due(4, later) && !growth.is_due(7, later));
        assert!(!growth.should_double(4, later, Duration::ZERO, true));
        assert!(!growth.should_double(4, later + CHECK_INTERVAL, Duration::ZERO, true), "eight are too many");
    }
}
