//! Hashes of whole files that are under way: each file is read on some bytes at a time, so that a transfer can end
//! meanwhile.

use crate::drive::Talk;
use crate::hash::Whole;
use numaio_machine::port::{Digest, Fault, FilePath, Identity, Operation, Summing, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// Files that are read at a time.
const FILES: usize = 4;
/// Bytes of a file that are read at a time.
const BYTES: u64 = 32 << 20;

/// Files whose hashes are wanted, each with what it is wanted for.
#[derive(Debug)]
pub(crate) struct Sums<K> {
    /// Files that were not begun: the state of a hash takes two thousand bytes.
    waiting: VecDeque<(K, FilePath, Option<Identity>)>,
    /// Files that are to be read on.
    begun: Vec<(K, Summing)>,
    under_way: BTreeMap<Ticket, K>,
}

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), begun: Vec::new(), under_way: BTreeMap::new() }
    }
}

impl<K> Sums<K> {
    /// A file is to be read. With an identity it must stay the same.
    pub fn push(&mut self, what: K, at: FilePath, identity: Option<Identity>) {
        self.waiting.push_back((what, at, identity));
    }

    /// Begins as many reads as may be under way.
    pub fn go_on<B: AsRef<[u8]>>(&mut self, talk: &mut Talk<B>) {
        while self.under_way.len() < FILES {
            let begin = |(what, at, identity)| {
                let running = Box::new(Whole::default());
                (what, Summing { at, identity, offset: 0, most: BYTES, running, ended: false })
            };
            let next = self.begun.pop().or_else(|| self.waiting.pop_front().map(begin));
            let Some((what, summing)) = next else { return };
            self.under_way.insert(talk.submit(Operation::Sum(summing)), what);
        }
    }

    /// Some of a file was read. Gives the hash at its end, or why there is none.
    pub fn done(
        &mut self,
        ticket: Ticket,
        outcome: Result<Summing, Fault>,
    ) -> Option<(K, Result<Digest, Fault>)> {
        let what = self.under_way.remove(&ticket)?;
        match outcome {
            Ok(summing) if !summing.ended => {
                self.begun.push((what, summing));
                None
            }
            Ok(summing) => Some((what, Ok(summing.running.digest()))),
            Err(fault) => Some((what, Err(fault))),
        }
    }

    /// Forgets what was not begun.
    pub fn stop(&mut self) {
        self.waiting.clear();
        self.begun.clear();
    }

    /// How many files are to be read on.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.begun.len() + self.under_way.len()
    }
}
