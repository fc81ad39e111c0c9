//! A port that writes no faster than it may: what has come waits with its buffer, and when there is no other buffer the
//! link takes nothing more. So also a source that sends faster than it was told is slowed down.

use numaio_linux::interrupt::interrupted;
use numaio_linux::port::{FilePort, Slab};
use numaio_machine::port::{Event, Operation, Packet, Port, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A port with a limit.
pub struct Slowed {
    port: FilePort,
    pace: Option<Pace>,
    /// Operations that wait for their time, in their order.
    held: VecDeque<(Ticket, Operation<Slab>)>,
    /// Whether the link is gone: then nobody is slowed down any more.
    closed: bool,
}

/// When the next bytes may be written.
struct Pace {
    bytes_per_second: u64,
    next: Instant,
}

impl Pace {
    /// How long the next bytes have to wait.
    fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// So many are written now. Time in which nothing was written is not made up for.
    fn take(&mut self, bytes: u64, now: Instant) {
        let seconds = bytes as f64 / self.bytes_per_second.max(1) as f64;
        self.next = self.next.max(now) + Duration::from_secs_f64(seconds);
    }
}

impl Slowed {
    /// Writes so many bytes a second, if there is a limit.
    pub fn new(port: FilePort, bytes_per_second: Option<u64>) -> Self {
        let pace = bytes_per_second.map(|bytes_per_second| Pace { bytes_per_second, next: Instant::now() });
        Self { port, pace, held: VecDeque::new(), closed: false }
    }

    /// Begins what may begin now, and tells how long the rest has to wait.
    fn release(&mut self) -> Option<Duration> {
        let pace = self.pace.as_mut()?;
        loop {
            let (_, operation) = self.held.front()?;
            let (bytes, now) = (bytes_of(operation), Instant::now());
            let wait = pace.wait(now);
            if !wait.is_zero() && !self.closed && !interrupted() {
                return Some(wait);
            }
            pace.take(bytes, now);
            let (ticket, operation) = self.held.pop_front()?;
            self.port.submit(ticket, operation);
        }
    }
}

/// Bytes of data that an operation writes.
fn bytes_of(operation: &Operation<Slab>) -> u64 {
    match operation {
        Operation::Write { data: Some(_), puts, .. } => {
            puts.iter().flat_map(|put| &put.parts).map(|part| part.bytes.len() as u64).sum()
        }
        _ => 0,
    }
}

impl Port for Slowed {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        match self.pace.is_some() && bytes_of(&operation) > 0 {
            true => self.held.push_back((ticket, operation)),
            false => self.port.submit(ticket, operation),
        }
    }

    fn send(&mut self, packet: Packet<Slab>) {
        self.port.send(packet);
    }

    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Slab>>) {
        let most = self.release().map_or(most, |wait| wait.min(most));
        self.port.wait(most, events);
        self.closed |= events.iter().any(|event| matches!(event, Event::Closed(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_at_their_pace_and_rests_are_not_made_up_for() {
        let begin = Instant::now();
        let mut pace = Pace { bytes_per_second: 1000, next: begin };
        assert_eq!(pace.wait(begin), Duration::ZERO);
        pace.take(500, begin);
        assert_eq!(pace.wait(begin), Duration::from_millis(500));
        let later = begin + Duration::from_secs(10);
        assert_eq!(pace.wait(later), Duration::ZERO);
        pace.take(2000, later);
        assert_eq!(pace.wait(later), Duration::from_secs(2));
    }
}
