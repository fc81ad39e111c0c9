//! Threads that wait for each other, and that none can leave waiting.

use numaio_machine::probe::ProbeError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Turns of a waiting loop before the CPU is offered to others: where a virtual machine has fewer CPUs than
/// it shows, the one waited for may need this one.
const TURNS_BEFORE_YIELDING: u32 = 10_000;

/// Why a thread ends early.
pub enum Leave {
    /// It failed by itself.
    Failed(ProbeError),
    /// Another one did.
    Abandoned,
}

impl From<ProbeError> for Leave {
    fn from(error: ProbeError) -> Self {
        Self::Failed(error)
    }
}

/// Threads that work together.
pub struct Team {
    size: usize,
    /// What all times are counted from.
    epoch: Instant,
    abandoned: AtomicBool,
    ready: Mutex<usize>,
    all_ready: Condvar,
    arrived: AtomicUsize,
    round: AtomicUsize,
    started: AtomicUsize,
    latest_start: AtomicU64,
}

/// A thread's promise to the team: dropped before [`Presence::done`], it sets the others free.
pub struct Presence<'a>(Option<&'a Team>);

impl Team {
    /// A team of that many threads.
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
        }
    }

    /// Nanoseconds since the team was made.
    pub fn now(&self) -> u64 {
        super::nanoseconds(self.epoch)
    }

    /// The calling thread's promise.
    pub fn presence(&self) -> Presence<'_> {
        Presence(Some(self))
    }

    /// Sets all free who wait or will wait.
    pub fn abandon(&self) {
        // Under the lock, so that nobody falls asleep between looking and waiting.
        let _ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        self.abandoned.store(true, Ordering::Release);
        self.all_ready.notify_all();
    }

    /// Whether one left before its time.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Sleeps until all threads are prepared, which may take long.
    pub fn meet(&self) -> Result<(), Leave> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        *ready += 1;
        if *ready == self.size {
            self.all_ready.notify_all();
        }
        while *ready < self.size && !self.abandoned.load(Ordering::Acquire) {
            ready = self.all_ready.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
        if *ready < self.size {
            return Err(Leave::Abandoned);
        }
        Ok(())
    }

    /// Waits, busy, until all threads are here: they go on within well under a microsecond.
    pub fn line_up(&self) -> Result<(), Leave> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return Ok(());
        }
        let mut turns = 0u32;
        while self.round.load(Ordering::Acquire) == round {
            if self.abandoned.load(Ordering::Acquire) {
                return Err(Leave::Abandoned);
            }
            turns = turns.saturating_add(1);
            if turns > TURNS_BEFORE_YIELDING {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Notes that a thread starts to copy now.
    pub fn note_start(&self, ns: u64) {
        self.latest_start.fetch_max(ns, Ordering::AcqRel);
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// When the last thread started; none while one has not.
    pub fn latest_start(&self) -> Option<u64> {
        (self.started.load(Ordering::Acquire) == self.size).then(|| self.latest_start.load(Ordering::Acquire))
    }
}

impl Presence<'_> {
    /// The thread has done all that others wait for.
    pub fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if let Some(team) = self.0 {
            team.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that line up many times, counted after each.
    #[test]
    fn nobody_goes_on_before_all_are_there() {
        const ROUNDS: usize = 200;
        let team = &Team::new(4);
        let count = &AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let presence = team.presence();
                    assert!(team.meet().is_ok());
                    for round in 1..=ROUNDS {
                        count.fetch_add(1, Ordering::Relaxed);
                        assert!(team.line_up().is_ok());
                        assert!(count.load(Ordering::Relaxed) >= round * 4);
                        assert!(team.line_up().is_ok());
                    }
                    presence.done();
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), ROUNDS * 4);
    }

    #[test]
    fn one_that_fails_leaves_nobody_waiting() {
        for waits_asleep in [true, false] {
            let team = &Team::new(3);
            let left = thread::scope(|scope| {
                let wait = move || if waits_asleep { team.meet() } else { team.line_up() };
                let waiting = [scope.spawn(wait), scope.spawn(wait)];
                scope.spawn(move || drop(team.presence()));
                waiting.map(|thread| thread.join().expect("no panic"))
            });
            assert!(left.iter().all(|result| matches!(result, Err(Leave::Abandoned))), "{waits_asleep}");
        }
    }
}
