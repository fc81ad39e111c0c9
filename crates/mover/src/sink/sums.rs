//! Hashes of whole files: to compare what is there with what the source has, and for a manifest.

use super::Sink;
use crate::entry::{FileNumber, Kind, Object};
use crate::name::Name;
use crate::report::{reason, Report};
use crate::sums::Sums;
use crate::wire::{About, Frame, Needed, Sum, There, WireError};
use numaio_machine::port::{Digest, Fault, FileKind, FilePath, Found, Summing, Ticket};
use std::collections::BTreeMap;

/// Files of a manifest that wait to be hashed while entries are worked on.
const MOST_WAITING: usize = 4_096;

/// What a hash is for.
#[derive(Debug)]
pub(super) enum For {
    /// To be compared with that of this file of the source.
    Compare(u64),
    /// A line of the manifest.
    Manifest(Name),
}

/// Both hashes of a file, as far as they are known.
#[derive(Debug, Default)]
struct Pair {
    ours: Option<Digest>,
    theirs: Option<Digest>,
    /// Hashes that are awaited.
    awaited: u8,
    /// The source cannot hash it.
    failed: bool,
}

/// All hashes that are wanted.
#[derive(Debug, Default)]
pub(super) struct Hashes {
    sums: Sums<For>,
    pairs: BTreeMap<u64, Pair>,
}

impl Hashes {
    pub fn is_idle(&self) -> bool {
        self.sums.len() == 0
    }

    pub fn stop(&mut self) {
        self.sums.stop();
    }

    /// Whether there is room to work on more entries.
    pub fn has_room(&self) -> bool {
        self.sums.len() < MOST_WAITING
    }

    /// Whether nothing is awaited of so many files from this one on.
    pub fn are_known(&self, first: FileNumber, count: usize) -> bool {
        let all = first.get()..first.get() + count as u64;
        self.pairs.range(all).all(|(_, pair)| pair.awaited == 0)
    }

    /// Whether both sides have the same; none if the source cannot tell. Forgets what is known.
    pub fn take(&mut self, number: FileNumber) -> Option<bool> {
        let pair = self.pairs.remove(&number.get()).unwrap_or_default();
        (!pair.failed).then(|| pair.ours.is_some() && pair.ours == pair.theirs)
    }

    /// The source told of a problem with a file.
    pub fn fail(&mut self, number: FileNumber) {
        if let Some(pair) = self.pairs.get_mut(&number.get()).filter(|pair| pair.theirs.is_none()) {
            pair.awaited -= u8::from(!pair.failed);
            pair.failed = true;
        }
    }
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Asks for the hashes of files of a batch that are as large here, and begins to hash them here.
    pub(super) fn compare(&mut self, look: Ticket) {
        let Some(work) = self.works.iter().find(|work| work.look == Some(look)) else { return };
        let mut found = work.found.iter().flatten();
        let mut answers = BTreeMap::new();
        for (index, entry) in work.entries.iter().enumerate() {
            let Object::New(inode) = &entry.object else { continue };
            let (Some(Ok(Some(found))), Kind::File(content)) = (found.next(), &inode.kind) else { continue };
            let is_left_alone = !self.options.sizes.contains(&content.size());
            let is_as_large = found.seen.kind == FileKind::File && found.seen.size == content.size();
            if is_as_large && content.size() > 0 && !is_left_alone {
                let number = work.first.get() + index as u64;
                answers.insert(number, Needed::Sum);
                self.hashes.pairs.insert(number, Pair { awaited: 2, ..Pair::default() });
                let at = FilePath::new(0, entry.name.as_bytes());
                self.hashes.sums.push(For::Compare(number), at, Some(found.seen.identity()));
            }
        }
        self.want(answers);
    }

    /// The source told a hash.
    pub(super) fn told_sum(&mut self, sum: Sum) -> Result<(), WireError> {
        let pair = self.hashes.pairs.get_mut(&sum.file.get());
        let pair = pair.filter(|pair| pair.theirs.is_none() && !pair.failed);
        let pair = pair.ok_or(WireError::Value("a hash that nobody asked for"))?;
        pair.theirs = Some(sum.digest);
        pair.awaited -= 1;
        Ok(())
    }

    /// A file is what it will be: it stands in the manifest, if one is wanted.
    pub(super) fn note_there(&mut self, name: &Name) {
        if self.options.manifest && !self.options.rehearse {
            let at = FilePath::new(0, name.as_bytes());
            self.hashes.sums.push(For::Manifest(name.clone()), at, None);
        }
    }

    /// The same of a file that is left as it was found, if it is one.
    pub(super) fn note_found(&mut self, name: &Name, found: Option<&Found>) {
        if found.is_some_and(|found| found.seen.kind == FileKind::File) {
            self.note_there(name);
        }
    }

    pub(super) fn sum_on(&mut self) {
        self.hashes.sums.go_on(&mut self.talk);
    }

    pub(super) fn summed(&mut self, ticket: Ticket, outcome: Result<Summing, Fault>) {
        match self.hashes.sums.done(ticket, outcome) {
            Some((For::Compare(number), digest)) => {
                if let Some(pair) = self.hashes.pairs.get_mut(&number) {
                    // What cannot be read here is replaced.
                    pair.ours = digest.ok();
                    pair.awaited -= 1;
                }
            }
            Some((For::Manifest(name), Ok(digest))) => {
                let there = There { name, digest };
                self.talk.send(&Frame::There(there.clone()));
                self.talk.reports.push(Report::There(there));
            }
            Some((For::Manifest(name), Err(fault))) => {
                self.talk.problem(About::Name(name), reason(fault.why), &fault.text);
            }
            None => {}
        }
    }
}
