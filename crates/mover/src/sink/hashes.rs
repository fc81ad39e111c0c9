//! Hashes of complete files, for comparison with the source and for a manifest.

use super::Sink;
use crate::entry::{FileNumber, Kind, Object};
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
pub(super) enum HashPurpose {
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
    pub fn are_complete(&self, first: FileNumber, count: usize) -> bool {
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
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Requests the hashes of files in a batch that have equal size here, and hashes these.
    pub(super) fn request_hashes(&mut self, lookup: Ticket) {
        let Some(batch) = self.batches.iter().find(|batch| batch.lookup == Some(lookup)) else { return };
        let mut found = batch.found.iter().flatten();
        let mut answers = BTreeMap::new();
        for (index, entry) in batch.entries.iter().enumerate() {
            let Object::New(inode) = &entry.object else { continue };
            let (Some(Ok(Some(found))), Kind::File(content)) = (found.next(), &inode.kind) else { continue };
            let is_left_alone = !self.options.sizes.contains(&content.size());
            let is_as_large = found.metadata.kind == FileKind::File && found.metadata.size == content.size();
            if is_as_large && content.size() > 0 && !is_left_alone {
                let number = batch.first.get() + index as u64;
                answers.insert(number, NeededData::Hash);
                self.hashes.pairs.insert(number, HashPair { awaited: 2, ..HashPair::default() });
                let at = FilePath::new(0, entry.name.as_bytes());
                self.hashes.queue.push(HashPurpose::Compare(number), at, Some(found.metadata.identity()));
            }
        }
        self.send_requests(answers);
    }

    /// Receives a hash from the source.
    pub(super) fn receive_hash(&mut self, sum: FileHash) -> Result<(), WireError> {
        let pair = self.hashes.pairs.get_mut(&sum.file.get());
        let pair = pair.filter(|pair| pair.remote.is_none() && !pair.failed);
        let pair = pair.ok_or(WireError::InvalidValue("a hash that was not requested"))?;
        pair.remote = Some(sum.digest);
        pair.awaited -= 1;
        Ok(())
    }

    /// Adds a file with its final content to the manifest, if one is wanted.
    pub(super) fn add_to_manifest(&mut self, name: &Name) {
        if self.options.manifest && !self.options.dry_run {
            let at = FilePath::new(0, name.as_bytes());
            self.hashes.queue.push(HashPurpose::Manifest(name.clone()), at, None);
        }
    }

    /// Adds an existing object to the manifest if it is a regular file.
    pub(super) fn add_found_to_manifest(&mut self, name: &Name, found: Option<&FileInfo>) {
        if found.is_some_and(|found| found.metadata.kind == FileKind::File) {
            self.add_to_manifest(name);
        }
    }

    pub(super) fn submit_hash_reads(&mut self) {
        self.hashes.queue.submit_reads(&mut self.peer);
    }

    pub(super) fn hash_completed(&mut self, ticket: Ticket, outcome: Result<ContentHash, Fault>) {
        match self.hashes.queue.completed(ticket, outcome) {
            Some((HashPurpose::Compare(number), digest)) => {
                if let Some(pair) = self.hashes.pairs.get_mut(&number) {
                    // A file that cannot be read here is replaced.
                    pair.local = digest.ok();
                    pair.awaited -= 1;
                }
            }
            Some((HashPurpose::Manifest(name), Ok(digest))) => {
                let there = ManifestEntry { name, digest };
                self.peer.send(&Frame::ManifestEntry(there.clone()));
                self.peer.reports.push(Report::ManifestEntry(there));
            }
            Some((HashPurpose::Manifest(name), Err(fault))) => {
                self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text);
            }
            None => {}
        }
    }
}
