//! A thread of a port: it takes what waits, and does it.
//!
//! Blocks that go past the page cache it leaves to its ring (io_uring(7)), and takes more of them if more wait than idle threads
//! will take. Where there is no ring it waits for each itself.

use super::own::Own;
use super::pool::{Pool, Slab};
use super::ring::Ring;
use super::settle;
use super::work::{Claim, Task, Work};
use crate::affinity::Mask;
use crate::files::{Begun, Block, Roots};
use numaio_machine::port::{Event, Outcome, Ticket};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Instant;

/// What a thread is of, and works with.
pub(super) struct Worker {
    pub crew: usize,
    pub work: Arc<Work>,
    pub roots: Arc<Roots>,
    pub pool: Arc<Pool>,
    pub done: Sender<Event<Slab>>,
    /// Where it runs; anywhere if there is none.
    pub mask: Option<Mask>,
    /// Whether it may have a ring.
    pub may_ring: bool,
}

/// What a thread has in its hands.
struct Hands {
    own: Own,
    /// Made when it is first needed; none if it may have none, or cannot.
    ring: OnceCell<Option<Ring<Doing>>>,
    /// For what is read next. Who waited for one while blocks are on their way could wait for those.
    spare: Option<Slab>,
    /// When something ended last.
    ended: Instant,
}

/// An operation that was begun.
struct Doing {
    ticket: Ticket,
    claim: Claim,
    began: Instant,
}

/// A block that was moved, what it is of, and how many bytes were.
type Moved = (Block<Slab>, Doing, Result<usize, Errno>);

/// What a thread does next.
enum Next {
    Task(Task),
    /// It waits for blocks that are on their way.
    Wait,
    End,
}

impl Worker {
    /// Works until the port is closed.
    pub fn run(self) {
        settle(self.mask.as_ref());
        let (own, ring) = (Own::default(), OnceCell::new());
        let mut hands = Hands { own, ring, spare: None, ended: Instant::now() };
        while self.turn(&mut hands) {}
    }

    /// Whether it goes on.
    fn turn(&self, hands: &mut Hands) -> bool {
        match self.next(hands) {
            Next::Task(task) => self.begin(hands, task),
            Next::Wait => self.wait(hands),
            Next::End => false,
        }
    }

    fn next(&self, hands: &mut Hands) -> Next {
        let busy = hands.ring.get_mut().and_then(Option::as_mut).filter(|ring| !ring.is_idle());
        let Some(ring) = busy else {
            // Who may sleep for long keeps no buffer from others.
            hands.spare = None;
            return self.work.next(self.crew).map_or(Next::End, Next::Task);
        };
        if hands.spare.is_none() {
            hands.spare = self.pool.take_free();
        }
        if ring.has_room() && hands.spare.is_some() {
            if let Some(task) = self.work.one_more(self.crew) {
                ring.submit();
                return Next::Task(task);
            }
        }
        Next::Wait
    }

    fn begin(&self, hands: &mut Hands, Task { ticket, operation, claim }: Task) -> bool {
        let doing = Doing { ticket, claim, began: Instant::now() };
        let spare = &mut hands.spare;
        let wait = || self.work.short_of_buffers(|| self.pool.take());
        let buffer = || spare.take().or_else(|| self.pool.take_free()).or_else(wait);
        if Own::is_for(&operation) {
            let outcome = hands.own.run(operation, |operation| self.roots.run(operation, buffer));
            return self.end_beside(hands, doing, outcome);
        }
        let block = match self.roots.start(operation, buffer) {
            Begun::Ended(outcome) => return self.end_beside(hands, doing, outcome),
            Begun::Moving(block) => block,
        };
        let left = match self.ring(hands) {
            Some(ring) => ring.add(block, doing),
            None => Some((block, doing)),
        };
        let Some((block, doing)) = left else { return true };
        self.end(hands, doing, self.roots.go(block))
    }

    fn ring<'a>(&self, hands: &'a mut Hands) -> Option<&'a mut Ring<Doing>> {
        hands.ring.get_or_init(|| self.may_ring.then(|| Ring::new(self.mask.as_ref()).ok()).flatten());
        hands.ring.get_mut().and_then(Option::as_mut)
    }

    /// Ends an operation, and those of blocks that came meanwhile: more of the like may come without an end.
    fn end_beside(&self, hands: &mut Hands, doing: Doing, outcome: Outcome<Slab>) -> bool {
        let goes_on = self.end(hands, doing, outcome);
        let busy = hands.ring.get_mut().and_then(Option::as_mut).filter(|ring| !ring.is_idle());
        let moved = busy.map(Ring::moved_by_now).unwrap_or_default();
        goes_on && self.end_all(hands, moved)
    }

    /// Waits for blocks, and ends their operations.
    fn wait(&self, hands: &mut Hands) -> bool {
        hands.spare = None;
        let moved = self.ring(hands).map(Ring::wait).unwrap_or_default();
        self.end_all(hands, moved)
    }

    fn end_all(&self, hands: &mut Hands, moved: Vec<Moved>) -> bool {
        let mut one = |(block, doing, moved)| self.end(hands, doing, self.roots.end(block, moved));
        moved.into_iter().all(&mut one)
    }

    /// Tells how an operation ended; false if nobody listens.
    fn end(&self, hands: &mut Hands, doing: Doing, outcome: Outcome<Slab>) -> bool {
        let Doing { ticket, claim, began } = doing;
        // Of the time in which several were on their way each has its part.
        let now = Instant::now();
        let took = now.saturating_duration_since(began.max(hands.ended));
        hands.ended = now;
        self.work.ended(self.crew, claim, took);
        self.done.send(Event::Done(ticket, outcome)).is_ok()
    }
}
