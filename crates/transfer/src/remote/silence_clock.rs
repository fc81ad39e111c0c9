//! The time that another host was silent.

use std::time::{Duration, Instant};

/// Longest time between two polls that counts as silence: this process may have been stopped.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Measures the time without a sign of life.
pub struct SilenceClock {
    limit: Option<Duration>,
    silent: Duration,
    polled: Instant,
}

impl SilenceClock {
    /// A clock with a time limit, unless it is `None`.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, silent: Duration::ZERO, polled: Instant::now() }
    }

    /// Adds the time since the last poll. Returns the limit if it is reached.
    pub fn poll(&mut self) -> Option<Duration> {
        self.silent += self.polled.elapsed().min(LONGEST_STEP);
        self.polled = Instant::now();
        self.limit.filter(|limit| self.silent >= *limit)
    }

    /// Records a sign of life.
    pub fn restart(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Returns the time without a sign of life.
    pub fn silent(&self) -> Duration {
        self.silent
    }
}
