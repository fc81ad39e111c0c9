//! The bandwidth limit, which delays reads.

use std::time::Duration;

/// The limit, and when it permits the next read.
///
/// Invariant: `ready` is the time at which the bytes spent so far, less the refunded ones, are
/// permitted.
#[derive(Debug)]
pub(super) struct BandwidthLimit {
    /// Bytes per second; `None` is unlimited.
    limit: Option<u64>,
    ready: Duration,
    /// Whether the last read was delayed.
    throttled: bool,
}

impl BandwidthLimit {
    /// Creates a limit in bytes per second; `None` is unlimited.
    pub fn new(limit: Option<u64>) -> Self {
        Self { limit, ready: Duration::ZERO, throttled: false }
    }

    /// Returns whether a read may start now.
    pub fn may_read(&mut self, now: Duration) -> bool {
        self.throttled = self.limit.is_some() && now < self.ready;
        !self.throttled
    }

    /// Returns when the next read may start, if the limit delays it.
    pub fn wake(&self) -> Option<Duration> {
        self.throttled.then_some(self.ready)
    }

    /// Takes the bytes of a read from the budget.
    pub fn spend(&mut self, bytes: u64, now: Duration) {
        if self.limit.is_some() {
            self.ready = self.ready.max(now) + self.time_for(bytes);
        }
    }

    /// Returns unused bytes to the budget.
    pub fn refund(&mut self, bytes: u64) {
        self.ready = self.ready.saturating_sub(self.time_for(bytes));
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.limit.map_or(Duration::ZERO, |limit| Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64))
    }
}
