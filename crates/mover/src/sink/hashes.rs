//! Hashes of complete files, for comparison with the source and for a manifest.

use super::batches::{IncomingBatch, NewEntry};
use super::options::SinkOptions;
use crate::drive::PeerState;
use crate::entry::{FileNumber, Kind};
use crate::hash_queue::HashQueue;
use crate::name::Name;
use crate::port::{ContentHash, Digest, Fault, FileInfo, FileKind, FilePath, Ticket};
use crate::report::{reason, Report};
use crate::wire::{FileHash, Frame, ManifestEntry, NeededData, ProblemSubject, WireError};
use std::collections::BTreeMap;

/// Maximum manifest files waiting to be hashed while entries are processed.
const MAX_WAITING: usize = 4_096;

/// The purpose of a hash.
#[derive(Debug)]
enum HashPurpose {
    /// Comparison with the source's hash of the file with this number.
    Compare(u64),
    /// A line of the manifest.
    Manifest(Name),
}

/// The hashes of a file at both sides, as far as known.
#[derive(Debug, Default)]
struct HashPair {
    local: Option<Digest>,
    remote: Option<Digest>,
    /// Number of hashes that are still pending.
    awaited: u8,
    /// Whether the source failed to hash it.
    failed: bool,
}

/// All pending hashes.
///
/// Invariant: `awaited` of a pair counts its hash here until it is computed, and the hash of the
/// source until that or a problem arrives.
#[derive(Debug, Default)]
pub(super) struct FileHashes {
    queue: HashQueue<HashPurpose>,
    pairs: BTreeMap<u64, HashPair>,
}

impl FileHashes {
    /// Returns whether no file is being hashed.
    pub fn is_idle(&self) -> bool {
        self.queue.len() == 0
    }

    /// Drops the files that no operation hashes at the moment.
    pub fn stop(&mut self) {
        self.queue.stop();
    }

    /// Returns whether more entries may be processed.
    pub fn has_capacity(&self) -> bool {
        self.queue.len() < MAX_WAITING
    }

    /// Returns whether no hash is pending for `count` files starting at `first`.
    pub fn are_complete(&self, (first, count): (FileNumber, usize)) -> bool {
        let all = first.get()..first.get() + count as u64;
        self.pairs.range(all).all(|(_, pair)| pair.awaited == 0)
    }

    /// Removes a pair; returns whether both hashes are equal, or `None` if the source failed.
    pub fn take_result(&mut self, number: FileNumber) -> Option<bool> {
        let pair = self.pairs.remove(&number.get()).unwrap_or_default();
        (!pair.failed).then(|| pair.local.is_some() && pair.local == pair.remote)
    }

    /// Handles a problem of the source with a file.
    pub fn fail(&mut self, number: FileNumber) {
        if let Some(pair) = self.pairs.get_mut(&number.get()).filter(|pair| pair.remote.is_none()) {
            pair.awaited -= u8::from(!pair.failed);
            pair.failed = true;
        }
    }

    /// Hashes the files of a batch that have equal size here; returns the requests for the hashes
    /// of the source.
    pub fn compare(
        &mut self,
        batch: &mut IncomingBatch,
        options: &SinkOptions,
    ) -> BTreeMap<FileNumber, NeededData> {
        let mut answers = BTreeMap::new();
        for NewEntry { number, name, inode, found, .. } in batch.new_entries() {
            let (Ok(Some(found)), Kind::File(content)) = (found, &inode.kind) else { continue };
            let is_left_alone = !options.sizes.contains(&content.size());
            let is_as_large = found.metadata.kind == FileKind::File && found.metadata.size == content.size();
            if is_as_large && content.size() > 0 && !is_left_alone {
                answers.insert(number, NeededData::Hash);
                self.pairs.insert(number.get(), HashPair { awaited: 2, ..HashPair::default() });
                let at = FilePath::new(0, name.as_bytes());
                self.queue.push(HashPurpose::Compare(number.get()), at, Some(found.metadata.identity()));
            }
        }
        answers
    }

    /// Receives a hash from the source.
    pub fn receive(&mut self, sum: FileHash) -> Result<(), WireError> {
        let pair = self.pairs.get_mut(&sum.file.get());
        let pair = pair.filter(|pair| pair.remote.is_none() && !pair.failed);
        let pair = pair.ok_or(WireError::InvalidValue("a hash that was not requested"))?;
        pair.remote = Some(sum.digest);
        pair.awaited -= 1;
        Ok(())
    }

    /// Adds a file with its final content to the manifest, if one is wanted.
    pub fn add_to_manifest(&mut self, name: &Name, options: &SinkOptions) {
        if options.manifest && !options.dry_run {
            let at = FilePath::new(0, name.as_bytes());
            self.queue.push(HashPurpose::Manifest(name.clone()), at, None);
        }
    }

    /// Adds an existing object to the manifest if it is a regular file.
    pub fn add_found_to_manifest(&mut self, name: &Name, found: Option<&FileInfo>, options: &SinkOptions) {
        if found.is_some_and(|found| found.metadata.kind == FileKind::File) {
            self.add_to_manifest(name, options);
        }
    }

    /// Submits reads of files to hash.
    pub fn submit_reads<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        self.queue.submit_reads(peer);
    }

    /// Handles a completed read: a hash to compare is kept, and one for the manifest is reported.
    pub fn completed<B: AsRef<[u8]>>(
        &mut self,
        ticket: Ticket,
        outcome: Result<ContentHash, Fault>,
        peer: &mut PeerState<B>,
    ) {
        match self.queue.completed(ticket, outcome) {
            Some((HashPurpose::Compare(number), digest)) => {
                if let Some(pair) = self.pairs.get_mut(&number) {
                    // A file that cannot be read here is replaced.
                    pair.local = digest.ok();
                    pair.awaited -= 1;
                }
            }
            Some((HashPurpose::Manifest(name), Ok(digest))) => {
                let there = ManifestEntry { name, digest };
                peer.send(&Frame::ManifestEntry(there.clone()));
                peer.reports.push(Report::ManifestEntry(there));
            }
            Some((HashPurpose::Manifest(name), Err(fault))) => {
                peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text);
            }
            None => {}
        }
    }
}
