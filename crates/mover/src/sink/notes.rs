//! The journal on disk, and partial files that are to be removed.
//!
//! What the journal says of a partial file must be true whenever a run reads it. So whatever takes that back is on
//! disk before the file is written to: [`Notes::is_clean`] tells when it is.

use super::Sync;
use crate::entry::{Content, FileNumber, Inode};
use crate::extent::Extent;
use crate::journal::{Journal, Left, Replay};
use crate::name::Name;
use crate::ours::{partial, JOURNAL};
use crate::wire::TransferId;
use numaio_machine::port::{Fault, FilePath, Operation, Record, Ticket, Why};
use std::collections::BTreeSet;
use std::ops::Range;

/// Smallest file that is noted in the journal, in bytes: less is sent anew as quickly.
pub const FROM: u64 = 8 << 20;
/// Bytes that were written and not noted, at which they are noted.
const STEP: u64 = 16 << 20;
/// The same if they must be made durable before.
const STEP_SYNCED: u64 = 256 << 20;
/// Where a journal has the identity of its transfer.
const ID: Range<usize> = 10..26;
/// Bytes of an identity that tell how long the journal holds; the others make names of partial files.
const EPOCH: usize = 8;
/// The epoch of a journal that speaks only of what was made durable.
const FOR_EVER: [u8; EPOCH] = [0; EPOCH];

/// What is known of partial files, and what of that is on disk.
#[derive(Debug)]
pub(super) struct Notes {
    transfer: TransferId,
    sync: Sync,
    journal: Option<Journal>,
    /// A compact journal that begins the file anew.
    anew: Option<Vec<u8>>,
    /// Where the next bytes go.
    offset: u64,
    /// Whether there is a file on disk.
    on_disk: bool,
    /// Whether partial files of a transfer before this one may be there.
    continues: bool,
    /// Files that were written to since the last note.
    touched: BTreeSet<FilePath>,
    /// Bytes written to them.
    bytes: u64,
    /// Something that was noted does not hold any more.
    urgent: bool,
    /// The journal is to be there before files are begun.
    needed: bool,
    /// Nothing more comes to be noted.
    is_last: bool,
    unwanted: Vec<FilePath>,
    under_way: Option<(Ticket, UnderWay)>,
    /// What was given to be submitted.
    given: UnderWay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnderWay {
    Record,
    Removal,
}

impl Notes {
    pub fn new(transfer: TransferId, sync: Sync) -> Self {
        let mut transfer = transfer;
        if sync != Sync::None {
            transfer.0[..EPOCH].copy_from_slice(&FOR_EVER);
        }
        Self {
            transfer,
            sync,
            journal: Some(Journal::new(transfer)),
            anew: None,
            offset: 0,
            on_disk: false,
            continues: false,
            touched: BTreeSet::new(),
            bytes: 0,
            urgent: false,
            needed: false,
            is_last: false,
            unwanted: Vec::new(),
            under_way: None,
            given: UnderWay::Record,
        }
    }

    /// Where a file is until it has this name.
    pub fn partial(&self, name: &Name) -> FilePath {
        let mut id = self.transfer;
        id.0[..EPOCH].copy_from_slice(&FOR_EVER);
        FilePath::new(0, partial(id, name))
    }

    /// The journal of a transfer before this one is there.
    pub fn found(&mut self, bytes: &[u8]) {
        self.on_disk = true;
        let id = bytes.get(ID).and_then(|id| id.first_chunk::<16>()).copied().map(TransferId);
        let mut replay = Replay::new(id.unwrap_or(self.transfer));
        let journal = replay.push(bytes).and_then(|()| replay.finish()).ok().map(|(journal, _)| journal);
        // The partial files of that transfer get written over, whether or not what was noted holds.
        if let (Some(id), Some(_)) = (id, &journal) {
            self.transfer.0[EPOCH..].copy_from_slice(&id.0[EPOCH..]);
            self.continues = true;
        }
        let holds = |id: TransferId| id.0[..EPOCH] == FOR_EVER || id.0[..EPOCH] == self.transfer.0[..EPOCH];
        let held = journal.filter(|_| id.is_some_and(holds));
        self.urgent = held.is_none();
        let mut journal = held.unwrap_or_else(|| Journal::new(self.transfer));
        journal.continue_as(self.transfer);
        self.anew = Some(journal.compact());
        self.journal = Some(journal);
    }

    /// There is no journal: what is cut cannot be continued.
    pub fn go_without(&mut self) {
        self.journal = None;
    }

    /// The number under which a file is noted, if it is large enough.
    pub fn key(&self, name: &Name, inode: &Inode, content: &Content) -> Option<FileNumber> {
        if content.size() < FROM || self.journal.is_none() {
            return None;
        }
        let (seconds, nanoseconds) = (inode.mtime.seconds(), inode.mtime.nanoseconds());
        let size = content.size().to_be_bytes();
        let facts = [&size[..], &seconds.to_be_bytes(), &nanoseconds.to_be_bytes(), name.as_bytes()];
        FileNumber::new(all_of(name).start | hash(&facts.concat())).ok()
    }

    /// What of a file is not durable.
    pub fn left(&self, key: FileNumber, content: &Content) -> Option<Left> {
        self.journal.as_ref().map(|journal| journal.left(key, content))
    }

    /// Part of a file was written.
    pub fn wrote(&mut self, key: FileNumber, at: &FilePath, extent: Extent) {
        let Some(journal) = &mut self.journal else { return };
        journal.durable(key, extent);
        self.bytes += extent.length();
        self.touched.insert(at.clone());
    }

    /// Nothing that was noted of a file holds any more, and it is to be written anew.
    pub fn void(&mut self, key: FileNumber) {
        if let Some(journal) = &mut self.journal {
            journal.void(key);
            self.urgent = true;
        }
    }

    /// Whether files may be begun anew.
    pub fn is_clean(&self) -> bool {
        self.journal.is_none() || !(self.urgent || self.needed)
    }

    /// Files are to be begun beside their names, which another run must find: they are made of the identity in the
    /// journal.
    pub fn need(&mut self) {
        self.needed |= !self.on_disk;
    }

    /// A file has its name: what was noted of it, now or before, is of no use.
    pub fn finished(&mut self, name: &Name, at: &FilePath) {
        self.touched.remove(at);
        self.void_all(name);
    }

    fn void_all(&mut self, name: &Name) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| !journal.is_empty()) {
            journal.void_all(all_of(name));
        }
    }

    /// A partial file is to be removed.
    pub fn forget(&mut self, name: &Name, at: FilePath) {
        self.finished(name, &at);
        self.unwanted.push(at);
    }

    /// What has this name is not written now. It may have been begun before, when it was another kind of object, or the scan met
    /// names of one file in another order.
    pub fn leave_none(&mut self, name: &Name) {
        if self.continues {
            self.void_all(name);
            self.unwanted.push(self.partial(name));
        }
    }

    /// Whether anything is under way.
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether there is nothing to do any more.
    pub fn is_over(&self) -> bool {
        let urgent = self.journal.is_some() && self.urgent;
        !self.is_busy() && self.unwanted.is_empty() && !urgent
    }

    /// What to do now, if it is time.
    pub fn next<B>(&mut self) -> Option<Operation<B>> {
        let step = if self.sync == Sync::None { STEP } else { STEP_SYNCED };
        self.do_next(step)
    }

    /// What to do before all is given up.
    pub fn last<B>(&mut self) -> Option<Operation<B>> {
        self.do_next(1)
    }

    fn do_next<B>(&mut self, step: u64) -> Option<Operation<B>> {
        if self.is_busy() {
            return None;
        }
        if self.journal.is_some() && (self.urgent || self.needed || self.bytes >= step) {
            self.given = UnderWay::Record;
            return self.record();
        }
        self.given = UnderWay::Removal;
        (!self.unwanted.is_empty()).then(|| Operation::Remove(self.unwanted.drain(..).collect()))
    }

    fn record<B>(&mut self) -> Option<Operation<B>> {
        let journal = self.journal.as_mut()?;
        let mut bytes = self.anew.take().unwrap_or_default();
        bytes.append(&mut journal.take_log());
        self.bytes = 0;
        let synced = self.sync != Sync::None;
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        let after = std::mem::take(&mut self.touched).into_iter().filter(|_| synced).collect();
        self.on_disk = true;
        let journal = FilePath::new(0, JOURNAL);
        Some(Operation::Record(Record { journal, offset, bytes, after, sync: synced || self.urgent }))
    }

    /// What [`Notes::next`] or [`Notes::last`] gave was submitted.
    pub fn began(&mut self, ticket: Ticket) {
        self.under_way = Some((ticket, self.given));
    }

    /// An operation ended; tells whether it was one of these.
    pub fn done(&mut self, ticket: Ticket, results: &[Result<(), Fault>]) -> bool {
        let Some((_, what)) = self.under_way.take_if(|(under_way, _)| *under_way == ticket) else {
            return false;
        };
        if what == UnderWay::Record {
            (self.urgent, self.needed) = (false, false);
            if let Some(fault) = results.iter().find_map(|result| result.as_ref().err()) {
                // A full disk, or another transfer has it: nothing can be continued later, and nothing else is wrong.
                self.journal = None;
                // What could not be made is not removed in the end, nor another one's.
                self.on_disk &= !matches!(fault.why, Why::Exists | Why::ReadOnly | Why::Permission);
            }
        }
        true
    }

    /// At the end there is no use for the journal, unless it knows partial files of another transfer to the same place that is not
    /// gone on with yet: that is so if it is told first to have what it says now on disk, and then to stay.
    pub fn close(&mut self, partials_are_gone: bool) -> Close {
        let is_of_use =
            self.journal.as_ref().is_some_and(|journal| !journal.is_empty()) && !partials_are_gone;
        if is_of_use && !std::mem::replace(&mut self.is_last, true) {
            self.urgent = true;
            return Close::Write;
        }
        self.journal = None;
        match std::mem::take(&mut self.on_disk) && !is_of_use {
            true => Close::Remove(FilePath::new(0, JOURNAL)),
            false => Close::Leave,
        }
    }
}

/// What to do with the journal at the end.
#[derive(Debug)]
pub(super) enum Close {
    /// What is known now is to be on disk first.
    Write,
    Leave,
    Remove(FilePath),
}

/// The numbers under which files of a name are noted, whatever their sizes and times.
fn all_of(name: &Name) -> Range<u64> {
    let first = hash(name.as_bytes()) << HALF;
    first..first + (1 << HALF)
}

/// Half of the bits of a [`FileNumber`].
const HALF: u32 = 31;

fn hash(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes) >> (u64::BITS - HALF)
}
