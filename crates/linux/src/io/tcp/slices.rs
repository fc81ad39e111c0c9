//! Time cut into slices, and what streams did in each.

use super::protocol::ReceivedSlice;
use super::streams::StreamSet;
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether to end early: often beside a slice, seldom beside what a stream does.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How time is cut. Before the slices one more passes as warm-up, in which TCP finds its window.
#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    /// Length of a slice.
    pub slice: Duration,
    /// How many count.
    pub slices: u32,
}

/// What ends slices early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyEnd {
    /// It was asked for; what was counted counts.
    Requested,
    /// Something broke; slices that ended before count.
    Failed(String),
    /// Stopped from outside.
    Interrupted,
}

/// What is known when the slices are over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// CPU time of this process in the slices, in nanoseconds.
    pub cpu_ns: u64,
    /// What ended them early.
    pub early: Option<EarlyEnd>,
}

/// A moment: when it was, what had been received, and what it had cost.
struct Snapshot {
    at: Instant,
    bytes: Vec<u64>,
    cpu_ns: u64,
}

impl Snapshot {
    fn now(set: &StreamSet) -> Self {
        Self { at: Instant::now(), bytes: set.received(), cpu_ns: cpu_ns() }
    }

    fn since(&self, before: &Self) -> ReceivedSlice {
        let ns = self.at.duration_since(before.at).as_nanos();
        let bytes = self.bytes.iter().zip(&before.bytes).map(|(now, then)| now - then).collect();
        ReceivedSlice { ns: u64::try_from(ns).unwrap_or(u64::MAX), bytes }
    }
}

/// Sets the streams going and cuts their time; gives each slice as it ends. `watch` is asked often whether to end
/// early.
pub fn measure(
    set: &StreamSet,
    plan: SlicePlan,
    mut each: impl FnMut(ReceivedSlice) -> Result<(), EarlyEnd>,
    mut watch: impl FnMut(&StreamSet) -> Option<EarlyEnd>,
) -> RunEnd {
    set.start();
    let mut last = Snapshot::now(set);
    let (mut cpu_from, mut cpu_to) = (last.cpu_ns, last.cpu_ns);
    let mut given = 0;
    let mut early = None;
    for cut in 1..=plan.slices.saturating_add(1) {
        // From the last cut on: where that came late, as on a busy machine, the next slice is no shorter.
        early = wait(set, last.at + plan.slice, &mut watch);
        let now = Snapshot::now(set);
        // Of a run that ends in its first slice, or in the warm-up, that part is all there is.
        let counts = match &early {
            None => cut > 1,
            Some(why) => *why == EarlyEnd::Requested && given == 0,
        };
        if counts {
            early = early.or(each(now.since(&last)).err());
            given += 1;
            cpu_to = now.cpu_ns;
        } else if early.is_none() {
            (cpu_from, cpu_to) = (now.cpu_ns, now.cpu_ns);
        }
        last = now;
        if early.is_some() {
            break;
        }
    }
    RunEnd { cpu_ns: cpu_to.saturating_sub(cpu_from), early }
}

/// Sleeps until a moment, unless there is a reason to end early.
fn wait(
    set: &StreamSet,
    until: Instant,
    watch: &mut impl FnMut(&StreamSet) -> Option<EarlyEnd>,
) -> Option<EarlyEnd> {
    loop {
        if let Some(early) = watch(set) {
            return Some(early);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}

/// CPU time of this process until now, user and system, in nanoseconds (getrusage(2)).
fn cpu_ns() -> u64 {
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
