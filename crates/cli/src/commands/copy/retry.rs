//! Going on by itself after a connection was lost: when to try again, and what all tries moved together.

use numaio_linux::interrupt::interrupted;
use numaio_linux::port::{FilePort, Slab};
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use numaio_mover::report::Totals;
use std::thread;
use std::time::{Duration, Instant};

/// The first pause; each further one is twice as long, to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Tries of one transfer.
#[derive(Debug)]
pub struct RetryState {
    limit: Duration,
    pause: Duration,
    /// Since when no try came further than all before.
    stalled_since: Option<Instant>,
    reached: u64,
    earlier: Option<Totals>,
}

impl RetryState {
    /// Tries until nothing more was there for so long.
    pub fn new(limit: Duration) -> Self {
        Self { limit, pause: FIRST_PAUSE, stalled_since: None, reached: 0, earlier: None }
    }

    /// Whether nothing was lost yet.
    pub fn is_first(&self) -> bool {
        self.earlier.is_none()
    }

    /// A try was lost that did so much, and had [come so far](numaio_mover::drive::TransferCore::progress): what is moved again and again and
    /// lost each time is no progress.
    pub fn record_lost_attempt(&mut self, totals: Totals, reached: u64) {
        if reached > self.reached {
            (self.stalled_since, self.pause, self.reached) = (None, FIRST_PAUSE, reached);
        }
        self.stalled_since.get_or_insert_with(Instant::now);
        self.earlier = Some(self.total_with(totals));
    }

    /// How long to wait before the next try; none if it is time to give up.
    pub fn next_pause(&mut self) -> Option<Duration> {
        let gone = self.stalled_since.map_or(Duration::ZERO, |stalled_since| stalled_since.elapsed());
        let left = self.limit.checked_sub(gone).filter(|left| !left.is_zero())?;
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(pause)
    }

    /// What all tries did together, the last of which did `last`.
    pub fn total_with(&self, last: Totals) -> Totals {
        self.earlier.map_or(last, |earlier| add_totals(earlier, last))
    }

    /// What the tries did that were lost.
    pub fn total(&self) -> Totals {
        self.earlier.unwrap_or_default()
    }

    /// The same, if there were any.
    pub fn earlier_totals(&self) -> Option<Totals> {
        self.earlier
    }
}

/// What tries did together, the last of which did `last`.
pub fn add_totals(earlier: Totals, last: Totals) -> Totals {
    Totals {
        entries: last.entries.max(earlier.entries),
        size: earlier.bytes.saturating_add(last.size),
        moved: earlier.moved.saturating_add(last.moved),
        // What an earlier try moved is as it should be in the next one.
        unchanged: last.unchanged.saturating_sub(earlier.moved),
        removed: earlier.removed.saturating_add(last.removed),
        failed: last.failed,
        bytes: earlier.bytes.saturating_add(last.bytes),
        sent: earlier.sent.saturating_add(last.sent),
        // What was there before the first one; the rest is counted above.
        resumed: earlier.resumed,
    }
}

/// Waits, unless it is interrupted.
pub fn wait_for_retry(pause: Duration) {
    let began = Instant::now();
    while began.elapsed() < pause && !interrupted() {
        thread::sleep(POLL_INTERVAL.min(pause));
    }
}

/// A port that notes whether its link was lost.
#[derive(Debug)]
pub struct WatchedPort {
    pub port: FilePort,
    pub closed: bool,
}

impl Port for WatchedPort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        self.port.submit(ticket, operation);
    }

    fn send(&mut self, packet: Packet<Slab>) {
        self.port.send(packet);
    }

    fn wait(&mut self, limit: Duration, events: &mut Vec<Event<Slab>>) {
        let had = events.len();
        self.port.wait(limit, events);
        self.closed |= events[had..].iter().any(|event| matches!(event, Event::Closed(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let mut retries = RetryState::new(Duration::from_secs(3600));
        assert!(retries.is_first());
        retries.record_lost_attempt(Totals::default(), 0);
        let pauses: Vec<u128> =
            (0..7).filter_map(|_| retries.next_pause()).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        retries.record_lost_attempt(Totals { bytes: 9, ..Totals::default() }, 9);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE), "it had come further");
        retries.record_lost_attempt(Totals { bytes: 9, ..Totals::default() }, 9);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE * 2), "it came as far once more");
        retries.record_lost_attempt(Totals { bytes: 4, ..Totals::default() }, 13);
        assert_eq!(retries.next_pause(), Some(FIRST_PAUSE));
        let mut never = RetryState::new(Duration::ZERO);
        never.record_lost_attempt(Totals::default(), 0);
        assert_eq!(never.next_pause(), None);
    }

    #[test]
    fn what_was_moved_is_counted_once() {
        let mut retries = RetryState::new(Duration::ZERO);
        let first = Totals {
            entries: 5,
            size: 30,
            moved: 2,
            unchanged: 1,
            bytes: 20,
            sent: 21,
            resumed: 7,
            ..Totals::default()
        };
        assert_eq!(retries.total_with(first), first);
        retries.record_lost_attempt(first, 20);
        let last = Totals {
            entries: 9,
            size: 70,
            moved: 6,
            unchanged: 3,
            bytes: 60,
            sent: 30,
            resumed: 15,
            ..Totals::default()
        };
        let all = Totals {
            entries: 9,
            size: 90,
            moved: 8,
            unchanged: 1,
            bytes: 80,
            sent: 51,
            resumed: 7,
            ..Totals::default()
        };
        assert_eq!(retries.total_with(last), all);
    }
}
