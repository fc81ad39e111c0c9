//! Threads that wait for each other, and that none can leave waiting.

use crate::affinity;
use numaio_machine::ids::CpuId;
use numaio_machine::probe::ProbeError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Turns of a waiting loop before the CPU is offered to others: where a virtual machine has fewer CPUs than
/// it shows, the one waited for may need this one.
const TURNS_BEFORE_YIELDING: u32 = 10_000;

/// Stack of a thread. It needs little; a signal with AVX-512 state on it needs 4 KiB more.
const STACK_BYTES: usize = 128 << 10;

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

/// Runs `work` on a thread for each member, pinned to its CPU; gives what all of them brought, or why one of
/// them failed.
pub fn together<M: Send, B: Send>(
    name: &str,
    members: Vec<(CpuId, M)>,
    work: impl Fn(&Team, M) -> Result<B, Leave> + Sync,
) -> Result<Vec<B>, ProbeError> {
    together_at(name, members, |cpu| affinity::pin(*cpu), work)
}

/// The same with threads that are bound to their places by `bind`.
pub fn together_at<P: Send, M: Send, B: Send>(
    name: &str,
    members: Vec<(P, M)>,
    bind: impl Fn(&P) -> Result<(), ProbeError> + Sync,
    work: impl Fn(&Team, M) -> Result<B, Leave> + Sync,
) -> Result<Vec<B>, ProbeError> {
    let (team, work, bind) = (&Team::new(members.len()), &work, &bind);
    let results: Vec<Result<B, Leave>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (place, member)) in members.into_iter().enumerate() {
            let run = move || {
                // Whatever ends this thread early, a panic too, the others do not wait for it.
                let presence = team.presence();
                bind(&place)?;
                let brought = work(team, member)?;
                presence.done();
                Ok(brought)
            };
            let builder = thread::Builder::new().name(format!("{name}-{index}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, run) {
                Ok(thread) => threads.push(Ok(thread)),
                Err(error) => {
                    team.abandon();
                    let what = format!("start thread {index} of {name}");
                    threads.push(Err(Leave::Failed(ProbeError::Refused { what, why: error.to_string() })));
                    break;
                }
            }
        }
        let joined = threads.into_iter().map(|thread| thread?.join().unwrap_or(Err(Leave::Abandoned)));
        joined.collect()
    });
    let failure = results.iter().find_map(|result| match result {
        Err(Leave::Failed(error)) => Some(error.clone()),
        _ => None,
    });
    let all: Result<Vec<B>, Leave> = results.into_iter().collect();
    all.map_err(|_| {
        let why = || ProbeError::Refused {
            what: name.to_owned(),
            why: "a thread ended before its time".to_owned(),
        };
        failure.unwrap_or_else(why)
    })
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
    stopped: AtomicBool,
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
            stopped: AtomicBool::new(false),
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

    /// Notes that a thread starts its work now.
    pub fn note_start(&self, ns: u64) {
        self.latest_start.fetch_max(ns, Ordering::AcqRel);
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells those who only accompany the work of others that it is done.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether the work that the caller accompanies goes on.
    pub fn goes_on(&self) -> Result<bool, Leave> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(Leave::Abandoned);
        }
        Ok(!self.stopped.load(Ordering::Relaxed))
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
