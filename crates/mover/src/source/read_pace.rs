//! The measured read time, which shows whether reads wait for the disk.

use std::time::Duration;

/// Number of pieces over which the read time is measured.
const SAMPLE: usize = 512;
/// Read time per piece below which no seek can have happened: the data is in the page cache, or the
/// disk is rotational only by name, as virtual disks are. Then lookups cost more time than they
/// save.
const FAST: Duration = Duration::from_micros(250);

/// The measured read time.
///
/// Invariant: `read` pieces were read since `since`, fewer than a sample; `is_fast` describes the
/// last complete sample.
#[derive(Debug, Default)]
pub(super) struct ReadPace {
    /// The current time.
    now: Duration,
    since: Duration,
    read: usize,
    is_fast: bool,
}

impl ReadPace {
    /// Sets the current time.
    pub fn update(&mut self, now: Duration) {
        self.now = now;
    }

    /// Records that this number of pieces was read.
    pub fn record(&mut self, pieces: usize) {
        self.read += pieces;
        if self.read >= SAMPLE {
            let time = self.now.saturating_sub(self.since);
            self.is_fast = time.as_secs_f64() < FAST.as_secs_f64() * self.read as f64;
            (self.since, self.read) = (self.now, 0);
        }
    }

    /// Returns whether reads are faster than seeks.
    pub fn is_fast(&self) -> bool {
        self.is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_fast_while_reads_are_faster_than_seeks() {
        let mut pace = ReadPace::default();
        assert!(!pace.is_fast(), "nothing is measured yet");
        let mut now = Duration::ZERO;
        for (each, is_fast) in [(100, true), (8_000, false), (249, true), (251, false)] {
            let before = pace.is_fast();
            for _ in 0..SAMPLE / 8 {
                assert_eq!(pace.is_fast(), before, "changes only after a complete sample");
                now += 8 * Duration::from_micros(each);
                pace.update(now);
                pace.record(8);
            }
            assert_eq!(pace.is_fast(), is_fast, "{each} us");
        }
    }
}
