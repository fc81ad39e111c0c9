//! Retries after a lost connection: when to try again, and the totals of all attempts.

use crate::event::add_totals;
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_schema::JobTotals;
use std::thread;
use std::time::{Duration, Instant};

/// The first pause; each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// The longest pause without a time limit.
const LONGEST_PAUSE_FOREVER: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// State of the attempts of one transfer.
#[derive(Debug)]
pub struct RetryState {
    limit: Option<Duration>,
    pause: Duration,
    /// When the first attempt without further progress was lost.
    stalled_since: Option<Instant>,
    reached: u64,
    earlier: Option<JobTotals>,
}

impl RetryState {
    /// Retries until there has been no progress for `limit`; `None` retries forever.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, pause: FIRST_PAUSE, stalled_since: None, reached: 0, earlier: None }
    }

    /// Whether no attempt was lost yet.
    pub fn is_first(&self) -> bool {
        self.earlier.is_none()
    }

    /// Records a lost attempt with its totals and
    /// [progress](numaio_mover::drive::TransferCore::progress).
    ///
    /// Data that is lost and moved again on each attempt is not progress.
    pub fn record_lost_attempt(&mut self, totals: JobTotals, reached: u64) {
        if reached > self.reached {
            (self.stalled_since, self.pause, self.reached) = (None, FIRST_PAUSE, reached);
        }
        self.stalled_since.get_or_insert_with(Instant::now);
        self.earlier = Some(self.total_with(totals));
    }

    /// Records an attempt that reached no peer, and began at this time.
    pub fn record_unreachable(&mut self, began: Instant) {
        self.stalled_since.get_or_insert(began);
    }

    /// Whether to try again after a failed connection.
    ///
    /// The first connection fails at once, because its address may be wrong. A full daemon has
    /// answered.
    pub fn accepts(&self, error: &TransferError) -> bool {
        match (self.is_first(), self.limit) {
            (false, _) => true,
            (true, None) => error.is_transient(),
            (true, Some(_)) => matches!(error, TransferError::DaemonFull { .. }),
        }
    }

    /// Returns the pause before the next attempt; `None` once the limit is reached.
    pub fn next_pause(&mut self) -> Option<Duration> {
        let stalled = self.stalled_since.map_or(Duration::ZERO, |stalled_since| stalled_since.elapsed());
        let left = match self.limit {
            Some(limit) => limit.checked_sub(stalled).filter(|left| !left.is_zero())?,
            None => Duration::MAX,
        };
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(self.longest_pause());
        Some(pause)
    }

    /// Returns the pause that the others grow to.
    pub fn longest_pause(&self) -> Duration {
        self.limit.map_or(LONGEST_PAUSE_FOREVER, |_| LONGEST_PAUSE)
    }

    /// Returns the totals of all attempts, given those of the last one.
    pub fn total_with(&self, last: JobTotals) -> JobTotals {
        self.earlier.map_or(last, |earlier| add_totals(earlier, last))
    }

    /// Returns the totals of the lost attempts.
    pub fn total(&self) -> JobTotals {
        self.earlier.unwrap_or_default()
    }

    /// Returns the totals of the lost attempts, if there were any.
    pub fn earlier_totals(&self) -> Option<JobTotals> {
        self.earlier
    }
}

/// Waits, unless the process is interrupted, and calls `each` regularly.
pub fn wait_for_retry(pause: Duration, mut each: impl FnMut()) {
    let began = Instant::now();
    while began.elapsed() < pause && !interrupted() {
        each();
        thread::sleep(POLL_INTERVAL.min(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_limit() {
        let mut retries = RetryState::new(Some(Duration::from_secs(3600)));
        assert!(retries.is_first());
        retries.record_lost_attempt(JobTotals::default(), 0);
        let pauses: Vec<u128> =
            (0..7).filter_map(|_| retries.next_pause()).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        retries.record_lost_attempt(JobTotals { bytes: 9, ..JobTotals::default() }, 9);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE), "it has made progress");
        retries.record_lost_attempt(JobTotals { bytes: 9, ..JobTotals::default() }, 9);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE * 2), "it has made no further progress");
        retries.record_lost_attempt(JobTotals { bytes: 4, ..JobTotals::default() }, 13);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE));
        let mut never = RetryState::new(Some(Duration::ZERO));
        never.record_lost_attempt(JobTotals::default(), 0);
        assert_eq!(never.next_pause(), None);
    }

    #[test]
    fn pauses_without_a_limit_grow_to_a_minute() {
        let mut retries = RetryState::new(None);
        retries.record_unreachable(Instant::now());
        let pauses: Vec<u128> =
            (0..9).filter_map(|_| retries.next_pause()).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
    }

    #[test]
    fn first_connection_is_retried_if_that_may_help() {
        let host = || "h".to_owned();
        let status = |status| TransferError::NoAnswer { host: host(), status: Some(status) };
        let full = TransferError::DaemonFull { host: host(), why: String::new() };
        let silent = TransferError::PeerTimedOut { host: host(), seconds: 1 };
        let (limited, forever) = (RetryState::new(Some(Duration::from_secs(9))), RetryState::new(None));
        assert!(limited.accepts(&full) && !limited.accepts(&silent) && !limited.accepts(&status(255)));
        assert!(forever.accepts(&full) && forever.accepts(&silent) && forever.accepts(&status(255)));
        assert!(!forever.accepts(&status(127)), "numaio is not installed there");
    }

    #[test]
    fn totals_count_moved_data_once() {
        let mut retries = RetryState::new(Some(Duration::ZERO));
        let first = JobTotals {
            entries: 5,
            size: 30,
            moved: 2,
            unchanged: 1,
            bytes: 20,
            sent: 21,
            resumed: 7,
            ..JobTotals::default()
        };
        assert_eq!(retries.total_with(first), first);
        retries.record_lost_attempt(first, 20);
        let last = JobTotals {
            entries: 9,
            size: 70,
            moved: 6,
            unchanged: 3,
            bytes: 60,
            sent: 30,
            resumed: 15,
            ..JobTotals::default()
        };
        let all = JobTotals {
            entries: 9,
            size: 90,
            moved: 8,
            unchanged: 1,
            bytes: 80,
            sent: 51,
            resumed: 7,
            ..JobTotals::default()
        };
        assert_eq!(retries.total_with(last), all);
    }
}
