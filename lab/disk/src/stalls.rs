//! Time of a disk that stalls in bursts.
//!
//! The disk's own clock stops during a stall and is faster between stalls, so that the mean rate
//! stays the same. Each period has one stall, at a position that looks random but is reproducible.

use crate::random::random;

/// Rounding error of a time in seconds.
const ROUNDING: f64 = 1e-9;
/// Length of a period in seconds: stalls are shorter than a sample of `numaio bench disk` (0.1 s
/// and more), and do not divide evenly among samples.
const PERIOD: f64 = 0.37;

/// Conversion between the host's time and the disk's time.
#[derive(Debug, Clone, Copy)]
pub struct StallClock {
    /// Share of the time in which the disk stalls.
    share: f64,
}

impl StallClock {
    /// Creates a clock that stalls for a share of the time, from 0 to below 1.
    pub fn new(share: f64) -> Self {
        Self { share }
    }

    /// Returns the disk's time at a time of the host, in seconds.
    pub fn disk_time(self, host: f64) -> f64 {
        let (period, start) = self.period(host);
        let at = host - period;
        let running = if at < start { at } else { (at - self.share * PERIOD).max(start) };
        period + running / (1.0 - self.share)
    }

    /// Returns the earliest time of the host at which the disk's time is reached, in seconds.
    pub fn host_time(self, disk: f64) -> f64 {
        let (period, start) = self.period(disk);
        let running = (disk - period) * (1.0 - self.share);
        let stalled = if running <= start + ROUNDING { 0.0 } else { self.share * PERIOD };
        period + running + stalled
    }

    /// Returns the start of the period and of its stall within it. Both clocks agree on periods.
    fn period(self, time: f64) -> (f64, f64) {
        let number = (time / PERIOD).floor().max(0.0);
        (number * PERIOD, random(number as u64) * (1.0 - self.share) * PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_in_both_directions() {
        for share in [0.0, 0.05, 0.4] {
            let clock = StallClock::new(share);
            let mut last = 0.0;
            for step in 0..4000 {
                let host = f64::from(step) * 1e-3;
                let disk = clock.disk_time(host);
                assert!(disk >= last, "time runs backwards at {host}");
                last = disk;
                let back = clock.host_time(disk);
                assert!(back <= host + 1e-9 && host - back <= share * PERIOD + 1e-9, "{host} is {back}");
                assert!((clock.disk_time(back) - disk).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_mean_rate_is_that_without_stalls() {
        let clock = StallClock::new(0.1);
        for periods in 1..50 {
            let time = f64::from(periods) * PERIOD;
            assert!((clock.disk_time(time) - time).abs() < 1e-9);
        }
        let stalled = (0..10_000).filter(|step| {
            let at = f64::from(*step) * 1e-3;
            clock.disk_time(at + 1e-3) - clock.disk_time(at) < 1e-9
        });
        let share = stalled.count() as f64 / 10_000.0;
        assert!((0.09..=0.1).contains(&share), "{share}");
    }
}
