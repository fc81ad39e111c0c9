//! Measurement of streams in time slices.

use super::protocol::ReceivedSlice;
use super::streams::StreamSet;
use crate::clock::cpu_ns;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks for an early end: short compared to a slice, long compared to a message.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Time slices of a run. One more slice precedes them as warm-up, in which TCP finds its window.
#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    /// Length of a slice.
    pub slice: Duration,
    /// Number of slices after the warm-up.
    pub slices: u32,
}

/// Reason why the slices ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlyEnd {
    /// Requested; the last slice counts.
    Requested,
    /// An error; only slices that ended before it count.
    Failed(String),
    /// Interrupted by a signal.
    Interrupted,
}

/// Result of measuring the slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// CPU time of this process during the slices, in nanoseconds.
    pub cpu_ns: u64,
    /// Reason of an early end.
    pub early: Option<EarlyEnd>,
}

/// Received bytes and CPU time at one moment.
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

/// Starts the streams and passes each slice to `each`. `watch` is polled for a reason to end early.
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
        // Relative to the last boundary: if that was late, the next slice is not shorter.
        early = wait(set, last.at + plan.slice, &mut watch);
        let now = Snapshot::now(set);
        // A run that ends in its first slice or in the warm-up consists of that part.
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

/// Sleeps until a moment or until `watch` returns a reason to end early.
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
