//! Worker thread of a port: takes operations from the queue and executes them.
//!
//! Blocks that bypass the page cache are submitted to the worker's ring (io_uring(7)), and further
//! ones are added while more are queued than idle threads will take. Without a ring, the worker
//! waits for each block.

use super::compression::ScratchBuffer;
use super::pinning::pin_thread;
use super::pool::{Pool, Slab};
use super::ring::Ring;
use super::work_queue::{Claim, Task, WorkQueue};
use crate::files::{Block, Roots, Started};
use numaio_linux::affinity::Mask;
use numaio_mover::port::{Event, Outcome, Ticket};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Instant;

/// Worker thread and its shared state.
pub(super) struct Worker {
    pub group: usize,
    pub work: Arc<WorkQueue>,
    pub roots: Arc<Roots>,
    pub pool: Arc<Pool>,
    pub done: Sender<Event<Slab>>,
    /// CPUs of the thread; unpinned if none.
    pub mask: Option<Mask>,
    /// Whether the thread may use io_uring.
    pub may_use_ring: bool,
}

/// Mutable state of a worker thread.
struct WorkerState {
    own: ScratchBuffer,
    /// Created at first use; none if not permitted or not supported.
    ring: OnceCell<Option<Ring<RunningTask>>>,
    /// Buffer for the next read. Waiting for a buffer while blocks are in flight could deadlock on
    /// those blocks.
    spare: Option<Slab>,
    /// Time at which the last operation finished.
    ended: Instant,
}

/// An operation that was started.
struct RunningTask {
    ticket: Ticket,
    claim: Claim,
    began: Instant,
}

/// A block moved by the ring, its operation, and the number of bytes moved.
type MovedBlock = (Block<Slab>, RunningTask, Result<usize, Errno>);

/// Next action of a worker.
enum Next {
    Task(Task),
    /// Wait for blocks in flight.
    Wait,
    End,
}

impl Worker {
    /// Runs until the port is closed.
    pub fn run(self) {
        pin_thread(self.mask.as_ref());
        let (own, ring) = (ScratchBuffer::default(), OnceCell::new());
        let mut state = WorkerState { own, ring, spare: None, ended: Instant::now() };
        while self.step(&mut state) {}
    }

    /// Performs one action; false when the worker must stop.
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
            // A worker that may sleep for long returns its buffer to the pool.
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

    /// Finishes an operation, then those of completed blocks: further operations might arrive
    /// endlessly.
    fn finish_and_poll(&self, state: &mut WorkerState, running: RunningTask, outcome: Outcome<Slab>) -> bool {
        let is_open = self.finish(state, running, outcome);
        let busy = state.ring.get_mut().and_then(Option::as_mut).filter(|ring| !ring.is_idle());
        let moved = busy.map(Ring::poll_moved).unwrap_or_default();
        is_open && self.finish_all(state, moved)
    }

    /// Waits for blocks in flight and finishes their operations.
    fn wait(&self, state: &mut WorkerState) -> bool {
        state.spare = None;
        let moved = self.ring(state).map(Ring::wait).unwrap_or_default();
        self.finish_all(state, moved)
    }

    fn finish_all(&self, state: &mut WorkerState, moved: Vec<MovedBlock>) -> bool {
        let mut one = |(block, running, moved)| self.finish(state, running, self.roots.finish(block, moved));
        moved.into_iter().all(&mut one)
    }

    /// Reports the outcome of an operation; false if the port was closed.
    fn finish(&self, state: &mut WorkerState, running: RunningTask, outcome: Outcome<Slab>) -> bool {
        let RunningTask { ticket, claim, began } = running;
        // Operations that overlapped in time share it.
        let now = Instant::now();
        let took = now.saturating_duration_since(began.max(state.ended));
        state.ended = now;
        self.work.complete(self.group, claim, took);
        self.done.send(Event::Done(ticket, outcome)).is_ok()
    }
}
