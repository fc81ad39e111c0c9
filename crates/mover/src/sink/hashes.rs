//! Hashes of whole files: to compare what is there with what the source has, and for a manifest.

use super::Sink;
use crate::entry::{FileNumber, Kind, Object};
use crate::name::Name;
use crate::report::{reason, Report};
use crate::hash_queue::HashQueue;
use crate::wire::{ProblemSubject, Frame, NeededData, FileHash, ManifestEntry, WireError};
use numaio_machine::port::{Digest, Fault, FileKind, FilePath, Found, Summing, Ticket};
use std::collections::BTreeMap;

/// Files of a manifest that wait to be hashed while entries are worked on.
const MAX_WAITING: usize = 4_096;

/// What a hash is for.
#[derive(Debug)]
pub(super) enum HashPurpose {
    /// To be compared with that of this file of the source.
    Compare(u64),
    /// A line of the manifest.
    Manifest(Name),
}

/// Both hashes of a file, as far as they are known.
#[derive(Debug, Default)]
struct HashPair {
    local: Option<Digest>,
    remote: Option<Digest>,
    /// Hashes that are awaited.
    awaited: u8,
    /// The source cannot hash it.
    failed: bool,
}

/// All hashes that are wanted.
#[derive(Debug, Default)]
pub(super) struct FileHashes {
    queue: HashQueue<HashPurpose>,
    pairs: BTreeMap<u64, HashPair>,
}

impl FileHashes {
    pub fn is_idle(&self) -> bool {
        self.queue.len() == 0
    }

    pub fn stop(&mut self) {
        self.queue.stop();
    }

    /// Whether there is room to work on more entries.
    pub fn has_capacity(&self) -> bool {
        self.queue.len() < MAX_WAITING
    }

    /// Whether nothing is awaited of so many files from this one on.
    pub fn are_complete(&self, first: FileNumber, count: usize) -> bool {
        let all = first.get()..first.get() + count as u64;
        self.pairs.range(all).all(|(_, pair)| pair.awaited == 0)
    }

    /// Whether both sides have the same; none if the source cannot tell. Forgets what is known.
    pub fn take_result(&mut self, number: FileNumber) -> Option<bool> {
        let pair = self.pairs.remove(&number.get()).unwrap_or_default();
        (!pair.failed).then(|| pair.local.is_some() && pair.local == pair.remote)
    }

    /// The source told of a problem with a file.
    pub fn fail(&mut self, number: FileNumber) {
        if let Some(pair) = self.pairs.get_mut(&number.get()).filter(|pair| pair.remote.is_none()) {
            pair.awaited -= u8::from(!pair.failed);
            pair.failed = true;
        }
    }
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Asks for the hashes of files of a batch that are as large here, and begins to hash them here.
    pub(super) fn request_hashes(&mut self, lookup: Ticket) {
        let Some(batch) = self.batches.iter().find(|batch| batch.lookup == Some(lookup)) else { return };
        let mut found = batch.found.iter().flatten();
        let mut answers = BTreeMap::new();
        for (index, entry) in batch.entries.iter().enumerate() {
            let Object::New(inode) = &entry.object else { continue };
            let (Some(Ok(Some(found))), Kind::File(content)) = (found.next(), &inode.kind) else { continue };
            let is_left_alone = !self.options.sizes.contains(&content.size());
            let is_as_large = found.seen.kind == FileKind::File && found.seen.size == content.size();
            if is_as_large && content.size() > 0 && !is_left_alone {
                let number = batch.first.get() + index as u64;
                answers.insert(number, NeededData::Hash);
                self.hashes.pairs.insert(number, HashPair { awaited: 2, ..HashPair::default() });
                let at = FilePath::new(0, entry.name.as_bytes());
                self.hashes.queue.push(HashPurpose::Compare(number), at, Some(found.seen.identity()));
            }
        }
        self.send_requests(answers);
    }

    /// The source told a hash.
    pub(super) fn receive_hash(&mut self, sum: FileHash) -> Result<(), WireError> {
        let pair = self.hashes.pairs.get_mut(&sum.file.get());
        let pair = pair.filter(|pair| pair.remote.is_none() && !pair.failed);
        let pair = pair.ok_or(WireError::InvalidValue("a hash that nobody asked for"))?;
        pair.remote = Some(sum.digest);
        pair.awaited -= 1;
        Ok(())
    }

    /// A file is what it will be: it stands in the manifest, if one is wanted.
    pub(super) fn add_to_manifest(&mut self, name: &Name) {
        if self.options.manifest && !self.options.dry_run {
            let at = FilePath::new(0, name.as_bytes());
            self.hashes.queue.push(HashPurpose::Manifest(name.clone()), at, None);
        }
    }

    /// The same of a file that is left as it was found, if it is one.
    pub(super) fn add_found_to_manifest(&mut self, name: &Name, found: Option<&Found>) {
        if found.is_some_and(|found| found.seen.kind == FileKind::File) {
            self.add_to_manifest(name);
        }
    }

    pub(super) fn submit_hash_reads(&mut self) {
        self.hashes.queue.submit_reads(&mut self.peer);
    }

    pub(super) fn hash_completed(&mut self, ticket: Ticket, outcome: Result<Summing, Fault>) {
        match self.hashes.queue.completed(ticket, outcome) {
            Some((HashPurpose::Compare(number), digest)) => {
                if let Some(pair) = self.hashes.pairs.get_mut(&number) {
                    // What cannot be read here is replaced.
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
