//! A port on the terms of a daemon. It writes no faster than it may: what has come waits with its buffer, and when there is no
//! other buffer the link takes nothing more, so that a source is slowed down whatever it was told. And it makes no program
//! that runs with the daemon's rights.

use numaio_linux::interrupt::interrupted;
use numaio_linux::port::{FilePort, Slab};
use numaio_machine::port::{Attributes, Event, Operation, Packet, Port, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Set-user-ID and set-group-ID: whoever runs such a file gets the rights of its owner (inode(7)).
const SET_ID: u32 = 0o6000;

/// A port with limits, or without any.
pub struct Guarded {
    port: FilePort,
    pace: Option<Pace>,
    /// Operations that wait for their time, in their order.
    held: VecDeque<(Ticket, Operation<Slab>)>,
    /// Whether the link is gone: then nobody is slowed down any more.
    closed: bool,
    /// Whether files may be made that run with the rights of their owner.
    set_id: bool,
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

impl Guarded {
    /// Writes so many bytes a second, if there is a limit, and modes with [`SET_ID`] if it may.
    pub fn new(port: FilePort, bytes_per_second: Option<u64>, set_id: bool) -> Self {
        let pace = bytes_per_second.map(|bytes_per_second| Pace { bytes_per_second, next: Instant::now() });
        Self { port, pace, held: VecDeque::new(), closed: false, set_id }
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

/// Takes [`SET_ID`] out of all modes that an operation sets.
fn without_set_id<B>(operation: &mut Operation<B>) {
    let clear = |attributes: &mut Attributes| {
        attributes.mode = attributes.mode.map(|mode| mode & !SET_ID);
    };
    match operation {
        Operation::Write { puts, .. } => {
            puts.iter_mut().filter_map(|put| put.settle.as_mut()).for_each(|to| clear(&mut to.attributes));
        }
        Operation::Make(makings) => makings.iter_mut().for_each(|making| clear(&mut making.attributes)),
        Operation::Adorn(all) => all.iter_mut().for_each(|(_, attributes)| clear(attributes)),
        _ => {}
    }
}

impl Port for Guarded {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, mut operation: Operation<Slab>) {
        if !self.set_id {
            without_set_id(&mut operation);
        }
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
    use numaio_machine::port::{Begin, FilePath, Making, Object, Put, Settle};

    #[test]
    fn nothing_that_is_made_runs_with_the_rights_of_its_owner() {
        let at = || FilePath::new(0, *b"f");
        let attributes = || Attributes { mode: Some(0o7755), ..Attributes::default() };
        let settle = Settle { size: 0, attributes: attributes(), name: at(), sync: false };
        let put = Put {
            at: at(),
            begin: Begin::Fresh,
            held: Vec::new(),
            check: Vec::new(),
            parts: Vec::new(),
            sparse: false,
            settle: Some(settle),
        };
        let making = Making { at: at(), object: Object::Directory, attributes: attributes() };
        let mut operations: [Operation<Vec<u8>>; 3] = [
            Operation::Write { puts: vec![put], data: None, packed: None, hash: |_| Default::default() },
            Operation::Make(vec![making]),
            Operation::Adorn(vec![(at(), attributes()), (at(), Attributes::default())]),
        ];
        operations.iter_mut().for_each(without_set_id);
        let shown = format!("{operations:?}");
        let set = format!("mode: Some({})", 0o1755);
        assert_eq!((shown.matches(&set).count(), shown.matches("mode: Some").count()), (3, 3), "{shown}");
    }

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
