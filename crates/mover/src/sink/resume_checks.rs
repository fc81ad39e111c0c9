//! Checks of partial files before they are resumed: what was written may have changed since.

use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::extent::Extent;
use crate::journal::BlockHash;
use crate::port::{ContentHash, Fault, FilePath, Operation, Ticket};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Maximum blocks read at the same time.
const MAX_READS: usize = 4;

/// A partial file whose blocks are being checked.
#[derive(Debug, Default)]
struct Check {
    /// Number of blocks that are not checked yet.
    left: usize,
    damaged: Vec<Extent>,
}

/// Blocks to check.
///
/// Invariant: `left` of a file counts its blocks that are waiting or in flight; a file is removed
/// when it is 0.
#[derive(Debug, Default)]
pub(super) struct ResumeChecks {
    files: HashMap<FileNumber, Check>,
    waiting: VecDeque<(FileNumber, FilePath, Extent, BlockHash)>,
    in_flight: BTreeMap<Ticket, (FileNumber, Extent, BlockHash)>,
}

impl ResumeChecks {
    /// Returns whether no block is waiting or in flight.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Drops all blocks that no operation reads at the moment.
    pub fn stop(&mut self) {
        self.waiting.clear();
    }

    /// Checks blocks of a partial file, at least one.
    pub fn push(&mut self, number: FileNumber, at: &FilePath, blocks: Vec<(Extent, BlockHash)>) {
        self.files.insert(number, Check { left: blocks.len(), damaged: Vec::new() });
        let blocks = blocks.into_iter().map(|(extent, hash)| (number, at.clone(), extent, hash));
        self.waiting.extend(blocks);
    }

    /// Submits reads up to the limit of operations in flight. They need no buffer, which data of
    /// the source may hold.
    pub fn submit_reads<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        while self.in_flight.len() < MAX_READS {
            let Some((number, at, extent, hash)) = self.waiting.pop_front() else { return };
            let operation = Operation::HashFile(ContentHash {
                at,
                identity: None,
                offset: extent.start(),
                most: extent.length(),
                running: hash.kind.incremental(),
                ended: false,
            });
            self.in_flight.insert(peer.submit(operation), (number, extent, hash));
        }
    }

    /// Returns whether an operation with this ticket is in flight.
    pub fn is_in_flight(&self, ticket: Ticket) -> bool {
        self.in_flight.contains_key(&ticket)
    }

    /// Handles a read block; returns the file and its damaged blocks when all are checked.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        outcome: Result<ContentHash, Fault>,
    ) -> Option<(FileNumber, Vec<Extent>)> {
        let (number, extent, expected) = self.in_flight.remove(&ticket)?;
        let is_intact = |read: ContentHash| {
            read.offset == extent.end()
                && BlockHash::new(expected.kind, &read.running.digest()) == Some(expected)
        };
        let check = self.files.get_mut(&number)?;
        if !outcome.is_ok_and(is_intact) {
            check.damaged.push(extent);
        }
        check.left -= 1;
        match check.left {
            0 => self.files.remove(&number).map(|check| (number, check.damaged)),
            _ => None,
        }
    }
}
