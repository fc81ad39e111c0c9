//! The port of a peer, with the limits of a daemon's user: a write rate, and no set-ID bits.
//!
//! Delayed writes keep their buffers; without free buffers the link stops reading, which slows the
//! source down. Delayed writes are dropped when the link closes or the process stops: otherwise a
//! client that aborts each transfer early would bypass the rate.

use crate::keep_alive::LinkMonitor;
use numaio_linux::interrupt::interrupted;
use numaio_mover::port::{Attributes, Event, Fault, FaultKind, Operation, Outcome, Packet, Port, Ticket};
use numaio_mover_linux::port::{FilePort, Slab};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Set-user-ID and set-group-ID bits, which grant the rights of a program's owner (inode(7)).
const SET_ID: u32 = 0o6000;

/// A port with optional limits.
pub struct LimitedPort {
    port: FilePort,
    monitor: LinkMonitor,
    pace: Option<WritePace>,
    delayed: DelayedWrites,
    /// Whether the link is closed.
    closed: bool,
    /// Whether files may get set-ID bits.
    set_id: bool,
}

/// Delayed operations, each due when its bytes could have been written at the allowed rate.
///
/// Even the first one is delayed, so that reconnecting does not increase the rate.
#[derive(Default)]
struct DelayedWrites(VecDeque<(Instant, Ticket, Operation<Slab>)>);

impl DelayedWrites {
    /// Returns the first operation if it is due, else the remaining delay; `None` if there are
    /// none.
    fn next(&mut self, now: Instant) -> Option<Result<(Ticket, Operation<Slab>), Duration>> {
        let (due, ..) = self.0.front()?;
        let wait = due.saturating_duration_since(now);
        if !wait.is_zero() {
            return Some(Err(wait));
        }
        self.0.pop_front().map(|(_, ticket, operation)| Ok((ticket, operation)))
    }

    /// Fails all delayed operations.
    fn fail(&mut self, why: &str, events: &mut Vec<Event<Slab>>) {
        events.extend(self.0.drain(..).map(|(_, ticket, operation)| {
            let count = if let Operation::Write { puts, .. } = &operation { puts.len() } else { 0 };
            Event::Done(ticket, Outcome::Results(vec![Err(Fault::new(FaultKind::Cancelled, why)); count]))
        }));
    }
}

/// A rate limit with the due time of the last bytes.
struct WritePace {
    bytes_per_second: u64,
    last: Instant,
}

impl WritePace {
    /// Returns when `bytes` are due, after all earlier ones. Idle time is not credited.
    fn take(&mut self, bytes: u64, now: Instant) -> Instant {
        let seconds = bytes as f64 / self.bytes_per_second.max(1) as f64;
        self.last = self.last.max(now) + Duration::from_secs_f64(seconds);
        self.last
    }
}

impl LimitedPort {
    /// Limits a port to a rate, if there is one, and to modes without set-ID bits unless `set_id`.
    pub fn new(port: FilePort, monitor: LinkMonitor, bytes_per_second: Option<u64>, set_id: bool) -> Self {
        let pace =
            bytes_per_second.map(|bytes_per_second| WritePace { bytes_per_second, last: Instant::now() });
        Self { port, monitor, pace, delayed: DelayedWrites::default(), closed: false, set_id }
    }

    /// Returns whether the link is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Submits all due operations, and returns the delay of the next one.
    fn release(&mut self) -> Option<Duration> {
        loop {
            match self.delayed.next(Instant::now())? {
                Ok((ticket, operation)) => self.port.submit(ticket, operation),
                Err(wait) => return Some(wait),
            }
        }
    }

    /// Returns why delayed writes must not be written any more.
    fn stop_reason(&self) -> Option<&'static str> {
        match (interrupted(), self.closed) {
            (true, _) => Some("it was interrupted"),
            (false, true) => Some("the connection to the other side was lost"),
            (false, false) => None,
        }
    }
}

/// Returns the bytes of data that an operation writes.
fn data_bytes(operation: &Operation<Slab>) -> u64 {
    match operation {
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

impl Port for LimitedPort {
    type Buffer = Slab;

    fn submit(&mut self, ticket: Ticket, mut operation: Operation<Slab>) {
        if !self.set_id {
            without_set_id(&mut operation);
        }
        let bytes = data_bytes(&operation);
        match self.pace.as_mut().filter(|_| bytes > 0) {
            Some(pace) => self.delayed.0.push_back((pace.take(bytes, Instant::now()), ticket, operation)),
            None => self.port.submit(ticket, operation),
        }
    }

    fn send(&mut self, packet: Packet<Slab>) {
        self.monitor.sent();
        self.port.send(packet);
    }

    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Slab>>) {
        if let Some(why) = self.stop_reason() {
            self.delayed.fail(why, events);
        }
        let most = self.release().map_or(most, |wait| wait.min(most));
        // Report failures without waiting.
        self.port.wait(if events.is_empty() { most } else { Duration::ZERO }, events);
        self.monitor.check(&mut self.port, events);
        self.closed |= events.iter().any(|event| matches!(event, Event::Closed(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::port::{FileCompletion, FilePath, FileWrite, NewObject, Object, OpenMode, Part};
    use numaio_mover_linux::files::Roots;
    use numaio_mover_linux::port::{Pool, Setting, StreamPair, WorkerGroup};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

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

    #[test]
    fn limits_the_rate_and_does_not_credit_idle_time() {
        let begin = Instant::now();
        let mut pace = WritePace { bytes_per_second: 1000, last: begin };
        let after = |millis| begin + Duration::from_millis(millis);
        assert_eq!(pace.take(500, begin), after(500), "the first bytes are delayed, too");
        assert_eq!(pace.take(500, begin), after(1_000));
        assert_eq!(pace.take(2_000, after(10_000)), after(12_000));
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
        let setting = Setting {
            roots: Roots::open(&[]).expect("nothing to open"),
            worker_groups: vec![WorkerGroup { threads: 1, cpus: None, pool: pool.clone() }],
            most_threads: 1,
            rings: false,
            pool: pool.clone(),
            share: |_, _| None,
            sparing: false,
            may_pause: true,
            network: Vec::new(),
        };
        let ends = StreamPair { from: Box::new(ours.try_clone().expect("a socket")), to: Box::new(ours) };
        // Delays each write by a year.
        let port = FilePort::over(setting, ends).expect("a port");
        let mut port = LimitedPort::new(port, LinkMonitor::new(None), Some(1), false);
        let year = Duration::from_secs(365 * 86_400);
        port.pace = port.pace.map(|pace| WritePace { last: Instant::now() + year, ..pace });
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
