//! Hashes of whole files that are under way: each file is read on some bytes at a time, so that a transfer can end
//! meanwhile.

use crate::drive::PeerState;
use crate::hash::FileHasher;
use numaio_machine::port::{Digest, Fault, FilePath, Identity, Operation, Summing, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// Files that are read at a time.
const MAX_READS: usize = 4;
/// Bytes of a file that are read at a time.
const READ_BYTES: u64 = 32 << 20;

/// Files whose hashes are wanted, each with what it is wanted for.
#[derive(Debug)]
pub(crate) struct HashQueue<K> {
    /// Files that were not begun: the state of a hash takes two thousand bytes.
    waiting: VecDeque<(K, FilePath, Option<Identity>)>,
    /// Files that are to be read on.
    partial: Vec<(K, Summing)>,
    in_flight: BTreeMap<Ticket, K>,
}

impl<K> Default for HashQueue<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), partial: Vec::new(), in_flight: BTreeMap::new() }
    }
}

impl<K> HashQueue<K> {
    /// A file is to be read. With an identity it must stay the same.
    pub fn push(&mut self, what: K, at: FilePath, identity: Option<Identity>) {
        self.waiting.push_back((what, at, identity));
    }

    /// Begins as many reads as may be under way.
    pub fn submit_reads<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        while self.in_flight.len() < MAX_READS {
            let begin = |(what, at, identity)| {
                let running = Box::new(FileHasher::default());
                (what, Summing { at, identity, offset: 0, most: READ_BYTES, running, ended: false })
            };
            let next = self.partial.pop().or_else(|| self.waiting.pop_front().map(begin));
            let Some((what, summing)) = next else { return };
            self.in_flight.insert(peer.submit(Operation::Sum(summing)), what);
        }
    }

    /// Some of a file was read. Gives the hash at its end, or why there is none.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        outcome: Result<Summing, Fault>,
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

    /// Forgets what was not begun.
    pub fn stop(&mut self) {
        self.waiting.clear();
        self.partial.clear();
    }

    /// How many files are to be read on.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.partial.len() + self.in_flight.len()
    }
}
