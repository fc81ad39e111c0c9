//! How fast data goes out.

use std::time::Duration;

/// Older news counts half after so long.
const WINDOW: Duration = Duration::from_secs(1);
/// So many bytes go into the kernel's buffers at first, as fast as it copies, and are no measure.
const BUFFERED: u64 = 4 << 20;
/// What has to be seen after them: so many bytes, or so long that something was to be sent.
const MIN_BYTES: u64 = 1 << 20;
const MIN_TIME: Duration = Duration::from_millis(10);

/// What was given to the link, and what of it went out: over the time in which there was something to send.
#[derive(Debug, Clone, Default)]
pub struct LinkRate {
    /// Bytes that had not gone out at `last`.
    waiting: u64,
    /// Bytes that were given to the link since then, and that went out.
    unaccounted: (u64, u64),
    /// Bytes that went out, and the time that took.
    sent_bytes: u64,
    busy: Duration,
    last: Duration,
    /// Bytes of the first [`BUFFERED`] that went out, and are not counted.
    buffered: u64,
}

impl LinkRate {
    /// So many bytes are given to the link.
    pub fn queued(&mut self, bytes: u64) {
        self.unaccounted.0 += bytes;
    }

    /// So many went out.
    pub fn sent(&mut self, bytes: u64) {
        self.unaccounted.1 += bytes;
    }

    /// Tells the time; to be called soon after something happened.
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

    /// Bytes that wait to go out.
    pub fn waiting(&self) -> u64 {
        self.waiting + self.unaccounted.0
    }

    /// Bytes a second while there are some to send, of late; none if it is too early to tell.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let known = self.sent_bytes >= MIN_BYTES || self.busy >= MIN_TIME;
        // Neither is nothing: a way that stands still is a slow one.
        known.then(|| self.sent_bytes.max(1) as f64 / self.busy.as_secs_f64().max(1e-6))
    }
}
