//! How fast data goes out.

use std::time::Duration;

/// Older news counts half after so long.
const WINDOW: Duration = Duration::from_secs(1);
/// So many bytes go into the kernel's buffers at first, as fast as it copies, and are no measure.
const BUFFERED: u64 = 4 << 20;
/// What has to be seen after them: so many bytes, or so long that something was to be sent.
const ENOUGH: u64 = 1 << 20;
const ENOUGH_TIME: Duration = Duration::from_millis(10);

/// What was given to the link, and what of it went out: over the time in which there was something to send.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// Bytes that had not gone out at `last`.
    waiting: u64,
    /// Bytes that were given to the link since then, and that went out.
    news: (u64, u64),
    /// Bytes that went out, and the time that took.
    out: u64,
    busy: Duration,
    last: Duration,
    /// Bytes of the first [`BUFFERED`] that went out, and are not counted.
    buffered: u64,
}

impl Way {
    /// So many bytes are given to the link.
    pub fn give(&mut self, bytes: u64) {
        self.news.0 += bytes;
    }

    /// So many went out.
    pub fn went(&mut self, bytes: u64) {
        self.news.1 += bytes;
    }

    /// Tells the time; to be called soon after something happened.
    pub fn look(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        if self.waiting > 0 {
            self.busy += passed;
        }
        let (given, went) = std::mem::take(&mut self.news);
        self.waiting = (self.waiting + given).saturating_sub(went);
        if self.buffered < BUFFERED {
            self.buffered += went;
            self.busy = Duration::ZERO;
        } else {
            self.out += went;
        }
        if self.busy > 2 * WINDOW {
            (self.busy, self.out) = (self.busy / 2, self.out / 2);
        }
    }

    /// Bytes that wait to go out.
    pub fn waiting(&self) -> u64 {
        self.waiting + self.news.0
    }

    /// Bytes a second while there are some to send, of late; none if it is too early to tell.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let known = self.out >= ENOUGH || self.busy >= ENOUGH_TIME;
        // Neither is nothing: a way that stands still is a slow one.
        known.then(|| self.out.max(1) as f64 / self.busy.as_secs_f64().max(1e-6))
    }
}
