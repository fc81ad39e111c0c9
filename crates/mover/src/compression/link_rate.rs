//! Measurement of the rate at which data leaves.

use std::time::Duration;

/// Half-life of old measurements.
const WINDOW: Duration = Duration::from_secs(1);
/// Bytes that the kernel buffers at first at memory speed; these are not measured.
const BUFFERED: u64 = 4 << 20;
/// Minimum data, or minimum busy time, after which the rate is known.
const MIN_BYTES: u64 = 1 << 20;
const MIN_TIME: Duration = Duration::from_millis(10);

/// The sending rate of a link, measured over the time in which data was queued.
#[derive(Debug, Clone, Default)]
pub struct LinkRate {
    /// Bytes queued at `last`.
    waiting: u64,
    /// Bytes queued and bytes sent since then.
    unaccounted: (u64, u64),
    /// Bytes sent, and the busy time in which they were sent.
    sent_bytes: u64,
    busy: Duration,
    last: Duration,
    /// Bytes among the first [`BUFFERED`] that were sent, which are not counted.
    buffered: u64,
}

impl LinkRate {
    /// Records bytes handed to the link.
    pub fn queued(&mut self, bytes: u64) {
        self.unaccounted.0 += bytes;
    }

    /// Records bytes that the link has sent.
    pub fn sent(&mut self, bytes: u64) {
        self.unaccounted.1 += bytes;
    }

    /// Accounts for the time since the last call; call it soon after every event.
    pub fn update(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        if self.waiting > 0 {
            self.busy += passed;
        }
        let (given, went) = std::mem::take(&mut self.unaccounted);
        self.waiting = (self.waiting + given).saturating_sub(went);
        if self.buffered < BUFFERED {
            self.buffered += went;
            self.busy = Duration::ZERO;
        } else {
            self.sent_bytes += went;
        }
        if self.busy > 2 * WINDOW {
            (self.busy, self.sent_bytes) = (self.busy / 2, self.sent_bytes / 2);
        }
    }

    /// Returns the number of queued bytes.
    pub fn waiting(&self) -> u64 {
        self.waiting + self.unaccounted.0
    }

    /// Returns the recent rate while data is queued; `None` if it is not known yet.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let known = self.sent_bytes >= MIN_BYTES || self.busy >= MIN_TIME;
        // At least one byte and 1 us, so that a stalled link has a low but valid rate.
        known.then(|| self.sent_bytes.max(1) as f64 / self.busy.as_secs_f64().max(1e-6))
    }
}
