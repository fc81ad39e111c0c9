//! The time in which counters of a team of threads are enabled.

use super::open_counters::OpenCounters;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Enables counters when the first thread of a team starts its measured work, and disables them
/// when the last one ends.
pub struct CountWindow<'a> {
    counters: Option<&'a OpenCounters>,
    started: AtomicUsize,
    running: AtomicUsize,
}

impl<'a> CountWindow<'a> {
    /// Creates the window of a team; without counters it does nothing.
    pub fn new(counters: Option<&'a OpenCounters>, threads: usize) -> Self {
        Self { counters, started: AtomicUsize::new(0), running: AtomicUsize::new(threads) }
    }

    /// Records that a thread starts. All threads are prepared by then.
    pub fn start(&self) {
        let is_first = self.started.fetch_add(1, Ordering::AcqRel) == 0;
        if let Some(counters) = self.counters.filter(|_| is_first) {
            counters.enable();
        }
    }

    /// Records that a thread ends.
    pub fn end(&self) {
        let is_last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if let Some(counters) = self.counters.filter(|_| is_last) {
            counters.disable();
        }
    }
}
