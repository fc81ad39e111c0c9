//! The port of a transfer on this host: within the rate and the threads that a daemon lends, the
//! write rate of a daemon's user, and without set-ID bits where these are not permitted. It watches
//! the link, too.
//!
//! Delayed reads and writes are submitted when their bytes could have been transferred at the rate,
//! and when fewer are in progress than the transfer has threads: each occupies a thread.
//! Delayed writes keep their buffers; without free buffers the link stops reading, which slows the
//! source down. Delayed writes are dropped when the link closes or the process stops: otherwise a
//! client that aborts each transfer early would bypass the rate.

use super::link::CurrentRate;
use super::messages::PeerMessage;
use crate::keep_alive::LinkMonitor;
use numaio_linux::interrupt::interrupted;
use numaio_mover::port::{Attributes, Event, Fault, FaultKind, Operation, Outcome, Packet, Port, Ticket};
use numaio_mover::wire::{port_message, port_message_payload};
use numaio_mover_linux::port::{FilePort, Slab};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Set-user-ID and set-group-ID bits, which grant the rights of a program's owner (inode(7)).
const SET_ID: u32 = 0o6000;
/// How often a suspended transfer looks whether it may continue.
const SUSPENDED_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time for which unused bytes are credited, so that late wake-ups do not lower the rate.
const LONGEST_CREDIT: Duration = Duration::from_millis(200);

/// A port with optional limits.
pub struct PacedPort {
    port: FilePort,
    monitor: LinkMonitor,
    limits: PortLimits,
    delayed: DelayedOperations,
    /// Reads and writes of data that were submitted and have not completed.
    in_progress: BTreeSet<Ticket>,
    /// Whether the link is closed.
    closed: bool,
}

/// Limits of a port.
#[derive(Debug, Clone)]
pub struct PortLimits {
    /// The capacity that a daemon lends.
    pub lent: Option<Arc<CurrentRate>>,
    /// Whether the other side understands messages about it.
    pub has_peer: bool,
    /// Maximum bytes per second that are written.
    pub writes_per_second: Option<u64>,
    /// Whether files may get set-ID bits.
    pub set_id: bool,
}

impl PortLimits {
    /// Those of a transfer to which a daemon may lend capacity.
    pub fn lent(lent: Option<Arc<CurrentRate>>) -> Self {
        Self { lent, has_peer: false, writes_per_second: None, set_id: true }
    }

    /// Returns the rate of an operation in bytes/s; `None` without a limit.
    fn rate(&self, operation: &Operation<Slab>) -> Option<u64> {
        let lent = self.lent.as_ref().and_then(|lent| lent.bytes_per_second());
        let own = self.writes_per_second.filter(|_| matches!(operation, Operation::Write { .. }));
        lent.into_iter().chain(own).min()
    }

    /// Returns the maximum number of reads and writes in progress; `None` without a limit.
    fn operations(&self) -> Option<usize> {
        self.lent.as_ref().and_then(|lent| lent.operation_limit())
    }
}

/// Delayed operations in order.
///
/// Even the first one is delayed, so that reconnecting does not increase the rate.
struct DelayedOperations {
    queue: VecDeque<(Ticket, Operation<Slab>)>,
    /// When the bytes of the operation before the first one were due.
    since: Instant,
}

impl DelayedOperations {
    /// Creates a queue; the bytes of the first operation count from `now` on.
    fn new(now: Instant) -> Self {
        Self { queue: VecDeque::new(), since: now }
    }

    /// Adds an operation. Idle time is not credited.
    fn push(&mut self, ticket: Ticket, operation: Operation<Slab>, now: Instant) {
        if self.queue.is_empty() {
            self.since = self.since.max(now);
        }
        self.queue.push_back((ticket, operation));
    }

    /// Returns the first operation if it is due, else the remaining delay; `None` if there are
    /// none.
    fn next(
        &mut self,
        limits: &PortLimits,
        now: Instant,
    ) -> Option<Result<(Ticket, Operation<Slab>), Duration>> {
        let (_, operation) = self.queue.front()?;
        let due = match limits.rate(operation) {
            None => self.since,
            Some(0) => return Some(Err(SUSPENDED_POLL_INTERVAL)),
            Some(rate) => self.since + Duration::from_secs_f64(data_bytes(operation) as f64 / rate as f64),
        };
        let wait = due.saturating_duration_since(now);
        if !wait.is_zero() {
            return Some(Err(wait));
        }
        self.since = now.checked_sub(LONGEST_CREDIT).map_or(due, |earliest| due.max(earliest));
        self.queue.pop_front().map(Ok)
    }

    /// Fails all delayed writes, and returns all delayed reads.
    fn fail(&mut self, why: &str, events: &mut Vec<Event<Slab>>) -> Vec<(Ticket, Operation<Slab>)> {
        let (reads, writes): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|(_, operation)| matches!(operation, Operation::Read { .. }));
        events.extend(writes.into_iter().map(|(ticket, operation)| {
            let count = if let Operation::Write { puts, .. } = &operation { puts.len() } else { 0 };
            Event::Done(ticket, Outcome::Results(vec![Err(Fault::new(FaultKind::Cancelled, why)); count]))
        }));
        reads
    }
}

impl PacedPort {
    /// Limits a port.
    pub fn new(port: FilePort, monitor: LinkMonitor, limits: PortLimits) -> Self {
        let (delayed, in_progress) = (DelayedOperations::new(Instant::now()), BTreeSet::new());
        Self { port, monitor, limits, delayed, in_progress, closed: false }
    }

    /// Returns whether the link is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether the other side was silent for too long.
    pub fn is_silent(&self) -> bool {
        self.monitor.is_silent()
    }

    /// Submits an operation that may proceed now.
    fn submit_now(&mut self, ticket: Ticket, operation: Operation<Slab>) {
        if let Some(lent) = &self.limits.lent {
            let bytes = data_bytes(&operation);
            lent.count(bytes);
            if bytes > 0 {
                self.in_progress.insert(ticket);
            }
        }
        self.port.submit(ticket, operation);
    }

    /// Returns whether every thread of the transfer is busy.
    fn is_busy(&self) -> bool {
        self.limits.operations().is_some_and(|most| self.in_progress.len() >= most)
    }

    /// Submits all due operations, and returns the delay of the next one; `None` if it waits for
    /// the end of another one.
    fn release(&mut self) -> Option<Duration> {
        loop {
            if self.is_busy() {
                return None;
            }
            match self.delayed.next(&self.limits, Instant::now())? {
                Ok((ticket, operation)) => self.submit_now(ticket, operation),
                Err(wait) => return Some(wait),
            }
        }
    }

    /// Sends the other side what the daemon has for it, and takes such messages out of the events
    /// from an index on.
    fn exchange_messages(&mut self, events: &mut Vec<Event<Slab>>, from: usize) {
        let Some(lent) = self.limits.lent.as_ref().filter(|_| self.limits.has_peer) else { return };
        for message in lent.take_for_peer() {
            let Ok(payload) = serde_json::to_vec(&message) else { continue };
            self.monitor.sent();
            self.port.send(Packet { frames: port_message(&payload), data: None });
        }
        let mut index = from;
        while index < events.len() {
            match message_of(&events[index]) {
                Some(message) => {
                    events.remove(index);
                    message.into_iter().for_each(|message| lent.received(message.sanitized()));
                }
                None => index += 1,
            }
        }
    }

    /// Returns why delayed operations must not wait any more.
    fn stop_reason(&self) -> Option<&'static str> {
        match (interrupted(), self.closed) {
            (true, _) => Some("it was interrupted"),
            (false, true) => Some("the connection to the other side was lost"),
            (false, false) => None,
        }
    }
}

/// Returns the message of the other side's port that an event is, if it is one; the inner option is
/// `None` if it is invalid.
fn message_of(event: &Event<Slab>) -> Option<Option<PeerMessage>> {
    let Event::Received(Packet { frames, data: None }) = event else { return None };
    port_message_payload(frames).map(|payload| serde_json::from_slice(payload).ok())
}

/// Returns the bytes of data that an operation reads or writes.
fn data_bytes(operation: &Operation<Slab>) -> u64 {
    match operation {
        Operation::Read { pieces, .. } => pieces.iter().map(|piece| piece.length as u64).sum(),
        Operation::Write { data: Some(_), puts, .. } => {
            puts.iter().flat_map(|put| &put.parts).map(|part| part.bytes.len() as u64).sum()
        }
        _ => 0,
    }
}

/// Clears [`SET_ID`] in all modes that an operation sets.
fn without_set_id<B>(operation: &mut Operation<B>) {
    let clear = |attributes: &mut Attributes| {
        attributes.mode = attributes.mode.map(|mode| mode & !SET_ID);
    };
    match operation {
        Operation::Write { puts, .. } => {
            puts.iter_mut().filter_map(|put| put.settle.as_mut()).for_each(|to| clear(&mut to.attributes));
        }
        Operation::Create(makings) => makings.iter_mut().for_each(|making| clear(&mut making.attributes)),
        Operation::SetAttributes(all) => all.iter_mut().for_each(|(_, attributes)| clear(attributes)),
        _ => {}
    }
}

impl Port for PacedPort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, mut operation: Operation<Slab>) {
        if !self.limits.set_id {
            without_set_id(&mut operation);
        }
        // Data operations keep their order. Their bytes are counted only if there is a limit.
        let may_delay =
            !self.delayed.queue.is_empty() || self.is_busy() || self.limits.rate(&operation).is_some();
        match may_delay && data_bytes(&operation) > 0 {
            true => self.delayed.push(ticket, operation, Instant::now()),
            false => self.submit_now(ticket, operation),
        }
    }

    fn send(&mut self, packet: Packet<Slab>) {
        self.monitor.sent();
        self.port.send(packet);
    }

    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Slab>>) {
        let had = events.len();
        if let Some(why) = self.stop_reason() {
            let reads = self.delayed.fail(why, events);
            reads.into_iter().for_each(|(ticket, operation)| self.submit_now(ticket, operation));
        }
        let most = self.release().map_or(most, |wait| wait.min(most));
        // Report failures without waiting.
        self.port.wait(if events.len() == had { most } else { Duration::ZERO }, events);
        for event in &events[had..] {
            if let Event::Done(ticket, _) = event {
                self.in_progress.remove(ticket);
            }
        }
        self.exchange_messages(events, had);
        self.monitor.check(&mut self.port, events);
        self.closed |= events[had..].iter().any(|event| matches!(event, Event::Closed(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::CapacityLink;
    use super::super::messages::CapacityReply;
    use super::*;
    use crate::json_lines::{self, LineReader};
    use crate::testing::port;
    use numaio_mover::port::{FileCompletion, FilePath, FileWrite, NewObject, Object, OpenMode, Part};
    use numaio_mover_linux::port::Pool;
    use numaio_schema::{CapacityState, LentCapacity};
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn removes_set_id_bits_from_all_modes() {
        let at = || FilePath::new(0, *b"f");
        let attributes = || Attributes { mode: Some(0o7755), ..Attributes::default() };
        let settle = FileCompletion { size: 0, attributes: attributes(), name: at(), sync: false };
        let put = FileWrite {
            at: at(),
            begin: OpenMode::Fresh,
            held: Vec::new(),
            check: Vec::new(),
            parts: Vec::new(),
            sparse: false,
            settle: Some(settle),
        };
        let making = NewObject { at: at(), object: Object::Directory, attributes: attributes() };
        let mut operations: [Operation<Vec<u8>>; 3] = [
            Operation::Write { puts: vec![put], data: None, packed: None, hash: |_| Default::default() },
            Operation::Create(vec![making]),
            Operation::SetAttributes(vec![(at(), attributes()), (at(), Attributes::default())]),
        ];
        operations.iter_mut().for_each(without_set_id);
        let shown = format!("{operations:?}");
        let set = format!("mode: Some({})", 0o1755);
        assert_eq!((shown.matches(&set).count(), shown.matches("mode: Some").count()), (3, 3), "{shown}");
    }

    fn limits(writes_per_second: u64) -> PortLimits {
        PortLimits { writes_per_second: Some(writes_per_second), ..PortLimits::lent(None) }
    }

    #[test]
    fn limits_the_rate_and_does_not_credit_idle_time() {
        let (pool, begin, limits) = (Pool::new(4), Instant::now(), limits(1000));
        let after = |millis| begin + Duration::from_millis(millis);
        let mut delayed = DelayedOperations::new(begin);
        let push = |delayed: &mut DelayedOperations, bytes, at| delayed.push(0, write(&pool, "a", bytes), at);
        let is_due =
            |delayed: &mut DelayedOperations, at| delayed.next(&limits, at).is_some_and(|next| next.is_ok());
        push(&mut delayed, 500, begin);
        push(&mut delayed, 500, begin);
        assert!(!is_due(&mut delayed, after(499)), "the first bytes are delayed, too");
        assert!(is_due(&mut delayed, after(500)) && !is_due(&mut delayed, after(999)));
        assert!(is_due(&mut delayed, after(1_000)));
        push(&mut delayed, 2_000, after(10_000));
        assert!(!is_due(&mut delayed, after(11_999)) && is_due(&mut delayed, after(12_000)));
    }

    #[test]
    fn a_lent_rate_applies_when_it_changes() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let lent = |state, rate| LentCapacity {
            state,
            rate: Some(rate),
            is_limited: true,
            ..LentCapacity::default()
        };
        let link = CapacityLink::start(LineReader::new(ours), Some(lent(CapacityState::Transferring, 1_000)))
            .expect("a link");
        let (pool, begin) = (Pool::new(4), Instant::now());
        let (limits, after) =
            (PortLimits::lent(Some(link.current())), |millis| begin + Duration::from_millis(millis));
        let until = |rate| {
            while link.current().bytes_per_second() != Some(rate) {
                thread::yield_now()
            }
        };
        let mut delayed = DelayedOperations::new(begin);
        (0..3).for_each(|ticket| delayed.push(ticket, write(&pool, "a", 1_000), begin));
        assert!(delayed.next(&limits, after(1_000)).is_some_and(|next| next.is_ok()));
        for (state, rate, seen) in [(CapacityState::Suspended, 1, 0), (CapacityState::Transferring, 500, 500)]
        {
            json_lines::send(&theirs, &CapacityReply::Lent(lent(state, rate))).expect("sent");
            until(seen);
            assert!(delayed.next(&limits, after(1_100)).is_some_and(|next| next.is_err()));
        }
        assert!(delayed.next(&limits, after(3_000)).is_some_and(|next| next.is_ok()));
        let mut events = Vec::new();
        assert!(delayed.fail("why", &mut events).is_empty() && events.len() == 1);
    }

    #[test]
    fn operations_in_progress_never_exceed_the_lent_threads() {
        let (ours, daemon) = UnixStream::pair().expect("sockets");
        let lent = LentCapacity {
            state: CapacityState::Transferring,
            threads: Some(2),
            has_fixed_threads: true,
            ..LentCapacity::default()
        };
        let link = CapacityLink::start(LineReader::new(ours), Some(lent)).expect("a link");
        let (pool, (ours, _theirs)) = (Pool::new(8), UnixStream::pair().expect("sockets"));
        let limits = PortLimits::lent(Some(link.current()));
        let mut port = PacedPort::new(port(ours, pool.clone()), LinkMonitor::new(None), limits);
        (0..5).for_each(|ticket| port.submit(ticket, write(&pool, "a", 7)));
        let mut events = Vec::new();
        while events.len() < 5 {
            assert!(port.in_progress.len() <= 2 && port.in_progress.len() + port.delayed.queue.len() > 0);
            port.wait(Duration::from_secs(1), &mut events);
        }
        assert!(
            port.in_progress.is_empty() && port.delayed.queue.is_empty(),
            "all have completed: {events:?}"
        );
        drop(daemon);
        while link.current().operation_limit().is_some() {
            thread::yield_now();
        }
        (5..8).for_each(|ticket| port.submit(ticket, write(&pool, "a", 7)));
        assert_eq!(port.in_progress.len(), 3, "without its daemon the transfer is not limited");
    }

    /// A write of a number of bytes.
    fn write(pool: &Arc<Pool>, name: &str, bytes: usize) -> Operation<Slab> {
        let part = Part { bytes: 0..bytes, offset: 0 };
        let put = FileWrite {
            parts: vec![part],
            ..FileWrite::new(FilePath::new(0, name.as_bytes()), OpenMode::Fresh)
        };
        Operation::Write { puts: vec![put], data: pool.take(), packed: None, hash: |_| Default::default() }
    }

    /// Delayed writes fail and free their buffers.
    #[test]
    fn drops_delayed_writes_when_the_link_closes() {
        let (pool, (ours, theirs)) = (Pool::new(4), UnixStream::pair().expect("sockets"));
        // Delays each write by a year.
        let mut port = PacedPort::new(port(ours, pool.clone()), LinkMonitor::new(None), limits(1));
        port.delayed.since = Instant::now() + Duration::from_secs(365 * 86_400);
        let names = ["a", "b", "c"];
        (0..).zip(names).for_each(|(ticket, name)| port.submit(ticket, write(&pool, name, 7)));
        drop(theirs);
        let mut events = Vec::new();
        while events.len() < 1 + names.len() {
            port.wait(Duration::from_secs(1), &mut events);
        }
        let is_cancelled = |event: &&Event<Slab>| {
            let Event::Done(_, Outcome::Results(results)) = event else { return false };
            matches!(&results[..], [Err(fault)] if fault.why == FaultKind::Cancelled)
        };
        assert_eq!(events.iter().filter(is_cancelled).count(), names.len(), "{events:?}");
        assert_eq!(std::iter::from_fn(|| pool.take_free()).collect::<Vec<_>>().len(), 4);
    }
}
