//! A thread of a port: it takes what waits, and does it.
//!
//! Blocks that go past the page cache it leaves to its ring (io_uring(7)), and takes more of them if more wait than idle threads
//! will take. Where there is no ring it waits for each itself.

use super::compression::ScratchBuffer;
use super::pin_thread;
use super::pool::{Pool, Slab};
use super::ring::Ring;
use super::work_queue::{Claim, Task, WorkQueue};
use crate::affinity::Mask;
use crate::files::{Block, Roots, Started};
use numaio_machine::port::{Event, Outcome, Ticket};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Instant;

/// What a thread is of, and works with.
pub(super) struct Worker {
    pub group: usize,
    pub work: Arc<WorkQueue>,
    pub roots: Arc<Roots>,
    pub pool: Arc<Pool>,
    pub done: Sender<Event<Slab>>,
    /// Where it runs; anywhere if there is none.
    pub mask: Option<Mask>,
    /// Whether it may have a ring.
    pub may_use_ring: bool,
}

/// What a thread has in its hands.
struct WorkerState {
    own: ScratchBuffer,
    /// Made when it is first needed; none if it may have none, or cannot.
    ring: OnceCell<Option<Ring<RunningTask>>>,
    /// For what is read next. Who waited for one while blocks are on their way could wait for those.
    spare: Option<Slab>,
    /// When something ended last.
    ended: Instant,
}

/// An operation that was begun.
struct RunningTask {
    ticket: Ticket,
    claim: Claim,
    began: Instant,
}

/// A block that was moved, what it is of, and how many bytes were.
type MovedBlock = (Block<Slab>, RunningTask, Result<usize, Errno>);

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
        pin_thread(self.mask.as_ref());
        let (own, ring) = (ScratchBuffer::default(), OnceCell::new());
        let mut state = WorkerState { own, ring, spare: None, ended: Instant::now() };
        while self.step(&mut state) {}
    }

    /// Whether it goes on.
    fn step(&self, state: &mut WorkerState) -> bool {
        match self.next(state) {
            Next::Task(task) => self.begin(state, task),
            Next::Wait => self.wait(state),
            Next::End => false,
        }
    }

    fn next(&self, state: &mut WorkerState) -> Next {
        let busy = state.ring.get_mut().and_then(Option::as_mut).filter(|ring| !ring.is_idle());
        let Some(ring) = busy else {
            // Who may sleep for long keeps no buffer from others.
            state.spare = None;
            return self.work.next(self.group).map_or(Next::End, Next::Task);
        };
        if state.spare.is_none() {
            state.spare = self.pool.take_free();
        }
        if ring.has_capacity() && state.spare.is_some() {
            if let Some(task) = self.work.next_while_busy(self.group) {
                ring.submit();
                return Next::Task(task);
            }
        }
        Next::Wait
    }

    fn begin(&self, state: &mut WorkerState, Task { ticket, operation, claim }: Task) -> bool {
        let running = RunningTask { ticket, claim, began: Instant::now() };
        let spare = &mut state.spare;
        let wait = || self.work.wait_for_buffer(|| self.pool.take());
        let buffer = || spare.take().or_else(|| self.pool.take_free()).or_else(wait);
        if ScratchBuffer::is_needed_for(&operation) {
            let outcome = state.own.run(operation, |operation| self.roots.run(operation, buffer));
            return self.finish_and_poll(state, running, outcome);
        }
        let block = match self.roots.start(operation, buffer) {
            Started::Done(outcome) => return self.finish_and_poll(state, running, outcome),
            Started::Pending(block) => block,
        };
        let left = match self.ring(state) {
            Some(ring) => ring.add(block, running),
            None => Some((block, running)),
        };
        let Some((block, running)) = left else { return true };
        self.finish(state, running, self.roots.move_now(block))
    }

    fn ring<'a>(&self, state: &'a mut WorkerState) -> Option<&'a mut Ring<RunningTask>> {
        state.ring.get_or_init(|| self.may_use_ring.then(|| Ring::new(self.mask.as_ref()).ok()).flatten());
        state.ring.get_mut().and_then(Option::as_mut)
    }

    /// Ends an operation, and those of blocks that came meanwhile: more of the like may come without an end.
    fn finish_and_poll(&self, state: &mut WorkerState, running: RunningTask, outcome: Outcome<Slab>) -> bool {
        let is_open = self.finish(state, running, outcome);
        let busy = state.ring.get_mut().and_then(Option::as_mut).filter(|ring| !ring.is_idle());
        let moved = busy.map(Ring::poll_moved).unwrap_or_default();
        is_open && self.finish_all(state, moved)
    }

    /// Waits for blocks, and ends their operations.
    fn wait(&self, state: &mut WorkerState) -> bool {
        state.spare = None;
        let moved = self.ring(state).map(Ring::wait).unwrap_or_default();
        self.finish_all(state, moved)
    }

    fn finish_all(&self, state: &mut WorkerState, moved: Vec<MovedBlock>) -> bool {
        let mut one = |(block, running, moved)| self.finish(state, running, self.roots.finish(block, moved));
        moved.into_iter().all(&mut one)
    }

    /// Tells how an operation ended; false if nobody listens.
    fn finish(&self, state: &mut WorkerState, running: RunningTask, outcome: Outcome<Slab>) -> bool {
        let RunningTask { ticket, claim, began } = running;
        // Of the time in which several were on their way each has its part.
        let now = Instant::now();
        let took = now.saturating_duration_since(began.max(state.ended));
        state.ended = now;
        self.work.complete(self.group, claim, took);
        self.done.send(Event::Done(ticket, outcome)).is_ok()
    }
}
