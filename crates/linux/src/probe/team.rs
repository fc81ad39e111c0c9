//! Teams of threads that wait for each other without deadlocks.

use crate::affinity;
use crate::clock::nanoseconds;
use numaio_machine::ids::CpuId;
use numaio_machine::probe::ProbeError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Spins before yielding the CPU: where a virtual machine has fewer CPUs than it shows, the awaited
/// thread may need this one.
const SPINS_BEFORE_YIELD: u32 = 10_000;

/// Stack size of a thread. A signal with AVX-512 state needs 4 KiB of it.
const STACK_BYTES: usize = 128 << 10;

/// Reason why a thread ends early.
pub enum EarlyExit {
    /// The thread failed.
    Failed(ProbeError),
    /// Another thread failed.
    Abandoned,
}

impl From<ProbeError> for EarlyExit {
    fn from(error: ProbeError) -> Self {
        Self::Failed(error)
    }
}

/// Runs `work` on a thread per member, pinned to its CPU; returns all results or the first error.
pub fn run_pinned<M: Send, B: Send>(
    name: &str,
    members: Vec<(CpuId, M)>,
    work: impl Fn(&ThreadTeam, M) -> Result<B, EarlyExit> + Sync,
) -> Result<Vec<B>, ProbeError> {
    run_bound(name, members, |cpu| affinity::pin(*cpu), work)
}

/// Runs `work` on a thread per member, bound by `bind`; returns all results or the first error.
pub fn run_bound<P: Send, M: Send, B: Send>(
    name: &str,
    members: Vec<(P, M)>,
    bind: impl Fn(&P) -> Result<(), ProbeError> + Sync,
    work: impl Fn(&ThreadTeam, M) -> Result<B, EarlyExit> + Sync,
) -> Result<Vec<B>, ProbeError> {
    let (team, work, bind) = (&ThreadTeam::new(members.len()), &work, &bind);
    let results: Vec<Result<B, EarlyExit>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (place, member)) in members.into_iter().enumerate() {
            let run = move || {
                // If this thread ends early, even by a panic, the others must not wait for it.
                let guard = team.guard();
                bind(&place)?;
                let results = work(team, member)?;
                guard.done();
                Ok(results)
            };
            let builder = thread::Builder::new().name(format!("{name}-{index}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, run) {
                Ok(thread) => threads.push(Ok(thread)),
                Err(error) => {
                    team.abandon();
                    let what = format!("start thread {index} of {name}");
                    threads.push(Err(EarlyExit::Failed(ProbeError::Refused {
                        call: what,
                        reason: error.to_string(),
                    })));
                    break;
                }
            }
        }
        let joined = threads.into_iter().map(|thread| thread?.join().unwrap_or(Err(EarlyExit::Abandoned)));
        joined.collect()
    });
    let failure = results.iter().find_map(|result| match result {
        Err(EarlyExit::Failed(error)) => Some(error.clone()),
        _ => None,
    });
    let all: Result<Vec<B>, EarlyExit> = results.into_iter().collect();
    all.map_err(|_| {
        let why =
            || ProbeError::Refused { call: name.to_owned(), reason: "a thread exited early".to_owned() };
        failure.unwrap_or_else(why)
    })
}

/// Threads that work together.
pub struct ThreadTeam {
    size: usize,
    /// Origin of all times.
    epoch: Instant,
    abandoned: AtomicBool,
    ready: Mutex<usize>,
    all_ready: Condvar,
    arrived: AtomicUsize,
    round: AtomicUsize,
    started: AtomicUsize,
    latest_start: AtomicU64,
    stopped: AtomicBool,
}

/// Releases the waiting threads if it is dropped before [`AbandonGuard::done`].
pub struct AbandonGuard<'a>(Option<&'a ThreadTeam>);

impl ThreadTeam {
    /// Creates a team of `size` threads.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            epoch: Instant::now(),
            abandoned: AtomicBool::new(false),
            ready: Mutex::new(0),
            all_ready: Condvar::new(),
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            latest_start: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the nanoseconds since the epoch.
    pub fn now(&self) -> u64 {
        nanoseconds(self.epoch)
    }

    /// Returns a guard for the calling thread.
    pub fn guard(&self) -> AbandonGuard<'_> {
        AbandonGuard(Some(self))
    }

    /// Makes all current and future waits return an error.
    pub fn abandon(&self) {
        // Under the lock, so that no thread misses the wakeup between check and wait.
        let _ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        self.abandoned.store(true, Ordering::Release);
        self.all_ready.notify_all();
    }

    /// Sleeps until all threads are prepared, which can take long.
    pub fn wait_until_prepared(&self) -> Result<(), EarlyExit> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        *ready += 1;
        if *ready == self.size {
            self.all_ready.notify_all();
        }
        while *ready < self.size && !self.abandoned.load(Ordering::Acquire) {
            ready = self.all_ready.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
        if *ready < self.size {
            return Err(EarlyExit::Abandoned);
        }
        Ok(())
    }

    /// Spins until all threads arrive: they continue within well under a microsecond.
    pub fn wait_at_barrier(&self) -> Result<(), EarlyExit> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return Ok(());
        }
        let mut iterations = 0u32;
        while self.round.load(Ordering::Acquire) == round {
            if self.abandoned.load(Ordering::Acquire) {
                return Err(EarlyExit::Abandoned);
            }
            iterations = iterations.saturating_add(1);
            if iterations > SPINS_BEFORE_YIELD {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Records that a thread starts its work now.
    pub fn record_start(&self, ns: u64) {
        self.latest_start.fetch_max(ns, Ordering::AcqRel);
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// Stops the threads that accompany the work of others.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether the accompanied work is still running.
    pub fn is_running(&self) -> Result<bool, EarlyExit> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(EarlyExit::Abandoned);
        }
        Ok(!self.stopped.load(Ordering::Relaxed))
    }

    /// Returns when the last thread started, or `None` until all have.
    pub fn latest_start(&self) -> Option<u64> {
        (self.started.load(Ordering::Acquire) == self.size).then(|| self.latest_start.load(Ordering::Acquire))
    }
}

impl AbandonGuard<'_> {
    /// Disarms the guard: the thread has passed all synchronization points.
    pub fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        if let Some(team) = self.0 {
            team.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads pass a barrier many times and count arrivals after each.
    #[test]
    fn barrier_releases_no_thread_early() {
        const ROUNDS: usize = 200;
        let team = &ThreadTeam::new(4);
        let count = &AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let guard = team.guard();
                    assert!(team.wait_until_prepared().is_ok());
                    for round in 1..=ROUNDS {
                        count.fetch_add(1, Ordering::Relaxed);
                        assert!(team.wait_at_barrier().is_ok());
                        assert!(count.load(Ordering::Relaxed) >= round * 4);
                        assert!(team.wait_at_barrier().is_ok());
                    }
                    guard.done();
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), ROUNDS * 4);
    }

    #[test]
    fn failing_thread_releases_the_others() {
        for waits_asleep in [true, false] {
            let team = &ThreadTeam::new(3);
            let left = thread::scope(|scope| {
                let wait =
                    move || if waits_asleep { team.wait_until_prepared() } else { team.wait_at_barrier() };
                let waiting = [scope.spawn(wait), scope.spawn(wait)];
                scope.spawn(move || drop(team.guard()));
                waiting.map(|thread| thread.join().expect("no panic"))
            });
            assert!(left.iter().all(|result| matches!(result, Err(EarlyExit::Abandoned))), "{waits_asleep}");
        }
    }
}
