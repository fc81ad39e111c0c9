//! Requested data: files that wait to be read, and reads in flight.

use super::read_order::{ReadMode, ReadOrder};
use super::storage::SourceDevice;
use crate::chunk::{ChunkPolicy, ChunkPolicyError, Chunker, ReadJob, ReadTask};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::port::Ticket;
use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;

/// The remaining pieces of a task.
type Pieces = Peekable<Box<dyn Iterator<Item = (FileNumber, Extent)> + Send>>;

/// Data to read, and reads in flight.
///
/// Invariant: every piece of a job is in `waiting`, in the chunker, in `started` or in one read in
/// flight until it is read or skipped, so no piece is read twice.
pub(super) struct ReadQueue {
    /// Files that do not fit into the window of the chunker yet.
    waiting: VecDeque<ReadJob>,
    chunker: Chunker,
    /// Files whose pieces are being read: one, in [`ReadMode::Pipeline`] up to `max_reads`.
    started: VecDeque<Pieces>,
    in_flight: BTreeMap<Ticket, Vec<(FileNumber, Extent)>>,
    max_reads: usize,
    order: ReadOrder,
    mode: ReadMode,
    /// Number of files added so far.
    added: u64,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadQueue").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl ReadQueue {
    /// Creates the empty queue of a device.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(
        device: &SourceDevice,
        mode: ReadMode,
        policy: &ChunkPolicy,
    ) -> Result<Self, ChunkPolicyError> {
        Ok(Self {
            waiting: VecDeque::new(),
            chunker: Chunker::new(policy.clone())?,
            started: VecDeque::new(),
            in_flight: BTreeMap::new(),
            max_reads: device.reads.max(1),
            order: device.order,
            mode,
            added: 0,
        })
    }

    /// Adds a file.
    pub fn push(&mut self, job: ReadJob) {
        let job = match self.order {
            ReadOrder::Listed => job.with_key(self.added),
            _ => job,
        };
        self.added += 1;
        if let Err(job) = self.chunker.push(job) {
            self.waiting.push_back(job);
        }
    }

    /// Returns whether nothing is queued or in flight, except in the chunker.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.started.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether another read may be submitted.
    pub fn has_capacity(&self) -> bool {
        self.in_flight.len() < self.max_reads
    }

    /// Returns the next pieces to read: a bundle, or one piece of a file. If `more_comes`, waits
    /// for it so that it is sorted with the rest.
    pub fn next(&mut self, more_comes: bool) -> Option<Vec<(FileNumber, Extent)>> {
        loop {
            if let Some(piece) = self.next_piece() {
                return Some(vec![piece]);
            }
            // The next file waits for all reads of the last one.
            if self.mode == ReadMode::Stripe && !self.in_flight.is_empty() {
                return None;
            }
            let task = self.next_task(more_comes)?;
            if task.files().count() > 1 {
                return Some(task.into_pieces().collect());
            }
            self.started.push_back(task.into_pieces().peekable());
        }
    }

    /// Returns the next piece of a started file.
    fn next_piece(&mut self) -> Option<(FileNumber, Extent)> {
        match self.mode {
            ReadMode::Auto | ReadMode::Stripe => loop {
                match self.started.front_mut()?.next() {
                    None => _ = self.started.pop_front(),
                    piece => return piece,
                }
            },
            ReadMode::Pipeline => {
                self.started.retain_mut(|pieces| pieces.peek().is_some());
                let in_flight = &self.in_flight;
                let is_read = |file| in_flight.values().flatten().any(|(other, _)| *other == file);
                let may_read = |pieces: &mut Pieces| pieces.peek().is_some_and(|(file, _)| !is_read(*file));
                let index = (0..self.started.len()).find(|&index| may_read(&mut self.started[index]))?;
                self.started[index].next()
            }
        }
    }

    /// Returns the next file or bundle.
    fn next_task(&mut self, more_comes: bool) -> Option<ReadTask> {
        while let Some(job) = self.waiting.pop_front() {
            if let Err(job) = self.chunker.push(job) {
                self.waiting.push_front(job);
                break;
            }
        }
        self.chunker.poll().or_else(|| {
            // Waiting longer would leave reads idle.
            let idle = !more_comes && self.in_flight.len() < self.max_reads.div_ceil(2);
            idle.then(|| self.chunker.flush()).and_then(|()| self.chunker.poll())
        })
    }

    /// Skips the other pieces of a file.
    pub fn skip_file(&mut self, file: FileNumber) {
        self.started.retain_mut(|pieces| pieces.peek().is_some_and(|(other, _)| *other != file));
    }

    /// Records that these pieces are being read.
    pub fn submitted(&mut self, ticket: Ticket, pieces: Vec<(FileNumber, Extent)>) {
        self.in_flight.insert(ticket, pieces);
    }

    /// Removes a completed read; returns its pieces, or `None` if the ticket is not one of these.
    pub fn completed(&mut self, ticket: Ticket) -> Option<Vec<(FileNumber, Extent)>> {
        self.in_flight.remove(&ticket)
    }
}
