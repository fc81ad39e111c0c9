//! Requested data: files that wait to be read, and reads in flight.

use crate::chunk::{ChunkPolicy, ChunkPolicyError, Chunker, ReadJob};
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::port::Ticket;
use std::collections::{BTreeMap, VecDeque};

/// The remaining pieces of a task.
type Pieces = Box<dyn Iterator<Item = (FileNumber, Extent)> + Send>;

/// Data to read, and reads in flight.
///
/// Invariant: every piece of a job is in `waiting`, in the chunker, in `pieces` or in one read in
/// flight until it is read or skipped, so no piece is read twice.
pub(super) struct ReadQueue {
    /// Files that do not fit into the window of the chunker yet.
    waiting: VecDeque<ReadJob>,
    chunker: Chunker,
    pieces: Option<Pieces>,
    in_flight: BTreeMap<Ticket, Vec<(FileNumber, Extent)>>,
    max_reads: usize,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadQueue").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl ReadQueue {
    /// Creates an empty queue with a maximum of reads in flight.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(policy: &ChunkPolicy, max_reads: usize) -> Result<Self, ChunkPolicyError> {
        Ok(Self {
            waiting: VecDeque::new(),
            chunker: Chunker::new(policy.clone())?,
            pieces: None,
            in_flight: BTreeMap::new(),
            max_reads: max_reads.max(1),
        })
    }

    /// Adds a file.
    pub fn push(&mut self, job: ReadJob) {
        if let Err(job) = self.chunker.push(job) {
            self.waiting.push_back(job);
        }
    }

    /// Returns whether nothing is queued or in flight, except in the chunker.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.pieces.is_none() && self.waiting.is_empty()
    }

    /// Returns whether another read may be submitted.
    pub fn has_capacity(&self) -> bool {
        self.in_flight.len() < self.max_reads
    }

    /// Returns the next pieces to read: a bundle, or one piece of a file. If `more_comes`, waits
    /// for it so that it is sorted with the rest.
    pub fn next(&mut self, more_comes: bool) -> Option<Vec<(FileNumber, Extent)>> {
        loop {
            if let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) {
                return Some(vec![piece]);
            }
            self.pieces = None;
            while let Some(job) = self.waiting.pop_front() {
                if let Err(job) = self.chunker.push(job) {
                    self.waiting.push_front(job);
                    break;
                }
            }
            let task = self.chunker.poll().or_else(|| {
                // Waiting longer would leave reads idle.
                let idle = !more_comes && self.in_flight.len() < self.max_reads.div_ceil(2);
                idle.then(|| self.chunker.flush()).and_then(|()| self.chunker.poll())
            })?;
            if task.files().count() > 1 {
                return Some(task.into_pieces().collect());
            }
            self.pieces = Some(task.into_pieces());
        }
    }

    /// Skips the other pieces of the file whose piece was returned last.
    pub fn skip_file(&mut self) {
        self.pieces = None;
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
