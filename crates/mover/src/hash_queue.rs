//! Hashes of complete files, read in bounded steps so that a transfer can be stopped in between.

use crate::drive::PeerState;
use crate::hash::FileHasher;
use crate::port::{ContentHash, Digest, Fault, FilePath, Identity, Operation, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// Maximum files read at the same time.
const MAX_READS: usize = 4;
/// Maximum bytes read per step.
const READ_BYTES: u64 = 32 << 20;

/// Files to hash, each with a key for the purpose of its hash.
///
/// Invariant: a file is waiting, partially read or in one read in flight until its hash or fault is
/// returned.
#[derive(Debug)]
pub(crate) struct HashQueue<K> {
    /// Files not started yet; kept apart because a hash state takes 2 KiB.
    waiting: VecDeque<(K, FilePath, Option<Identity>)>,
    /// Partially read files that no operation reads at the moment.
    partial: Vec<(K, ContentHash)>,
    in_flight: BTreeMap<Ticket, K>,
}

impl<K> Default for HashQueue<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), partial: Vec::new(), in_flight: BTreeMap::new() }
    }
}

impl<K> HashQueue<K> {
    /// Adds a file. With an `identity`, a file that has changed since fails.
    pub fn push(&mut self, what: K, at: FilePath, identity: Option<Identity>) {
        self.waiting.push_back((what, at, identity));
    }

    /// Submits reads up to the limit of files in flight.
    pub fn submit_reads<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        while self.in_flight.len() < MAX_READS {
            let begin = |(what, at, identity)| {
                let running = Box::new(FileHasher::default());
                (what, ContentHash { at, identity, offset: 0, most: READ_BYTES, running, ended: false })
            };
            let next = self.partial.pop().or_else(|| self.waiting.pop_front().map(begin));
            let Some((what, summing)) = next else { return };
            self.in_flight.insert(peer.submit(Operation::HashFile(summing)), what);
        }
    }

    /// Returns whether the ticket is a read in flight.
    pub fn is_reading(&self, ticket: Ticket) -> bool {
        self.in_flight.contains_key(&ticket)
    }

    /// Records a finished read; returns the hash or the fault when the file is complete.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        outcome: Result<ContentHash, Fault>,
    ) -> Option<(K, Result<Digest, Fault>)> {
        let what = self.in_flight.remove(&ticket)?;
        match outcome {
            Ok(summing) if !summing.ended => {
                self.partial.push((what, summing));
                None
            }
            Ok(summing) => Some((what, Ok(summing.running.digest()))),
            Err(fault) => Some((what, Err(fault))),
        }
    }

    /// Drops all files that no operation reads at the moment.
    pub fn stop(&mut self) {
        self.waiting.clear();
        self.partial.clear();
    }

    /// Returns the number of files that are not completely hashed.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.partial.len() + self.in_flight.len()
    }
}
