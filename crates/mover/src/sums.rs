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
    waiting: VecDeque<(K, Summing)>,
    under_way: BTreeMap<Ticket, K>,
}

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), under_way: BTreeMap::new() }
    }
}

impl<K> Sums<K> {
    /// A file is to be read. With an identity it must stay the same.
    pub fn push(&mut self, what: K, at: FilePath, identity: Option<Identity>) {
        let running = Box::new(Whole::default());
        let summing = Summing { at, identity, offset: 0, most: BYTES, running, ended: false };
        self.waiting.push_back((what, summing));
    }

    /// Begins as many reads as may be under way.
    pub fn go_on<B: AsRef<[u8]>>(&mut self, talk: &mut Talk<B>) {
        while self.under_way.len() < FILES {
            let Some((what, summing)) = self.waiting.pop_front() else { return };
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
                self.waiting.push_front((what, summing));
                None
            }
            Ok(summing) => Some((what, Ok(summing.running.digest()))),
            Err(fault) => Some((what, Err(fault))),
        }
    }

    /// Forgets what was not begun.
    pub fn stop(&mut self) {
        self.waiting.clear();
    }

    /// How many files are to be read on.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }
}
