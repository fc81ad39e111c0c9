//! The journal on disk, and partial files that are to be removed.
//!
//! What the journal says of a partial file must be true whenever a run reads it. So whatever takes that back is on
//! disk before the file is begun anew: [`Notes::is_clean`] tells when it is.
//!
//! After a run that was cut each name that is not written may have a partial file, and mostly has none: nobody knows before it is tried.
//! So that neither memory nor what an interrupt waits for grows with their number, entries are judged no faster than they are tried.

use super::Sync;
use crate::entry::{Content, FileNumber, Inode, Time, CHANGED_FROM};
use crate::extent::{Extent, ExtentSet};
use crate::journal::{Journal, Replay};
use crate::name::Name;
use crate::ours::{partial, JOURNAL};
use crate::wire::TransferId;
use numaio_machine::port::{Fault, FilePath, Operation, Record, Ticket, Why};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Smallest file that is noted in the journal, in bytes: less is sent anew as quickly.
pub const FROM: u64 = CHANGED_FROM;
/// Most bytes of a journal that is read: what it says of some 40 TB.
pub const MOST: usize = 64 << 20;
/// Bytes that were written and not noted, at which they are noted.
const STEP: u64 = 16 << 20;
/// The same if they must be made durable before.
const STEP_SYNCED: u64 = 256 << 20;
/// Partial files that wait to be removed, from which on no more entries are judged.
const MOST_UNWANTED: usize = 4_096;
/// Most of them that one operation removes.
const REMOVED_AT_ONCE: usize = 512;
/// Where a journal has the identity of its transfer.
const ID: Range<usize> = 10..26;
/// Bytes of an identity that tell how long the journal holds; the others make names of partial files.
const EPOCH: usize = 8;
/// Those of them that all tries of one command have.
pub const SERIES: Range<usize> = EPOCH..12;
/// The epoch of a journal that speaks only of what was made durable.
const FOR_EVER: [u8; EPOCH] = [0; EPOCH];

/// Whether size and time do not tell versions of a file apart for the user, who has hashes compared, or moves all: then nothing is
/// gone on with but what the same command began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Distrusts(pub bool);

/// What is known of partial files, and what of that is on disk.
#[derive(Debug)]
pub(super) struct Notes {
    transfer: TransferId,
    /// What files are noted under beside what is known of them.
    series: Vec<u8>,
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
    /// Files that were written to since the last note, by where they are.
    touched: BTreeMap<FilePath, Touched>,
    /// Bytes written to them.
    bytes: u64,
    /// Something that was noted does not hold any more, and the next record says so.
    urgent: bool,
    /// The journal is to be there before files are begun, and the next record makes it.
    needed: bool,
    /// It could not be written. What is on disk may not hold any more, and goes.
    lost: bool,
    /// Files of which nothing is believed any more, though what is on disk still says so.
    taken_back: HashSet<u64>,
    /// Nothing more comes to be noted.
    is_last: bool,
    /// Partial files that are to go.
    unwanted: Vec<FilePath>,
    /// Those that a run before this one may have left: if this one is given up, the next one asks for them again.
    possible: Vec<FilePath>,
    /// Whether some were removed since the last record.
    removed: bool,
    under_way: Option<(Ticket, UnderWay)>,
    /// What was given to be submitted.
    given: UnderWay,
}

#[derive(Debug)]
struct Touched {
    key: FileNumber,
    name: Name,
    extents: ExtentSet,
}

#[derive(Debug)]
enum UnderWay {
    /// The journal is written to, after files of these names were made durable; whether files wait for it that are to be begun, and
    /// whether it is made.
    Record {
        names: Vec<Name>,
        awaited: bool,
        is_new: bool,
        /// What is written and where, if names are made durable first: of them it depends whether it is.
        again: Option<(u64, Vec<u8>)>,
    },
    /// The journal goes.
    Loss,
    Removal,
}

impl Notes {
    pub fn new(mut transfer: TransferId, sync: Sync, distrusts: Distrusts) -> Self {
        let Distrusts(distrusts) = distrusts;
        let series = if distrusts { transfer.0[SERIES].to_vec() } else { Vec::new() };
        if sync != Sync::None {
            transfer.0[..EPOCH].copy_from_slice(&FOR_EVER);
        }
        Self {
            transfer,
            series,
            sync,
            journal: Some(Journal::new(transfer)),
            anew: None,
            offset: 0,
            on_disk: false,
            continues: false,
            touched: BTreeMap::new(),
            bytes: 0,
            urgent: false,
            needed: false,
            lost: false,
            taken_back: HashSet::new(),
            is_last: false,
            unwanted: Vec::new(),
            possible: Vec::new(),
            removed: false,
            under_way: None,
            given: UnderWay::Removal,
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
        let read = replay.push(bytes).and_then(|()| replay.finish()).ok();
        // The partial files of that transfer get written over, whether or not what was noted holds.
        if let (Some(id), Some(_)) = (id, &read) {
            self.transfer.0[EPOCH..].copy_from_slice(&id.0[EPOCH..]);
            self.continues = true;
        }
        let holds = |id: TransferId| id.0[..EPOCH] == FOR_EVER || id.0[..EPOCH] == self.transfer.0[..EPOCH];
        // One that was read in part may lack what took something back.
        let held = read.filter(|_| id.is_some_and(holds) && bytes.len() < MOST);
        let (mut journal, valid) = held.unwrap_or_else(|| (Journal::new(self.transfer), 0));
        if valid > 0 && id == Some(self.transfer) {
            // It goes on where it ended: what is written over may come back after a crash.
            self.offset = valid;
        } else {
            journal.continue_as(self.transfer);
            self.anew = Some(journal.compact());
            self.urgent = true;
        }
        self.journal = Some(journal);
    }

    /// There is no journal: what is cut cannot be continued.
    pub fn go_without(&mut self) {
        self.journal = None;
    }

    /// Whether there is a journal, or will be.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// The number under which a file is noted, if it is large enough.
    pub fn key(&self, name: &Name, inode: &Inode, content: &Content) -> Option<FileNumber> {
        if content.size() < FROM || self.journal.is_none() {
            return None;
        }
        let bytes =
            |time: Time| [&time.seconds().to_be_bytes()[..], &time.nanoseconds().to_be_bytes()[..]].concat();
        let (size, mtime) = (content.size().to_be_bytes(), bytes(inode.mtime));
        let changed = content.changed().map(bytes).unwrap_or_default();
        let facts = [&size[..], &mtime, &self.series, name.as_bytes(), b"\0", &changed];
        FileNumber::new(all_of(name).start | hash(&facts.concat())).ok()
    }

    /// What of a file is not durable.
    pub fn left(&self, key: FileNumber, content: &Content) -> Option<ExtentSet> {
        self.journal.as_ref().map(|journal| journal.left(key, content))
    }

    /// Part of a file was written.
    pub fn wrote(&mut self, key: FileNumber, name: &Name, at: &FilePath, extent: Extent) {
        if self.journal.is_none() {
            return;
        }
        self.bytes += extent.length();
        let new = || Touched { key, name: name.clone(), extents: ExtentSet::default() };
        self.touched.entry(at.clone()).or_insert_with(new).extents.insert(extent);
    }

    /// A file is to be written anew, or gone on with under a number: nothing that was noted of it under others holds any more.
    pub fn void(&mut self, name: &Name, but: Option<FileNumber>) {
        self.urgent |= self.void_all(name, but) || self.taken_back.contains(&all_of(name).start);
    }

    /// Whether files may be begun anew.
    pub fn is_clean(&self) -> bool {
        let awaited =
            matches!(self.under_way, Some((_, UnderWay::Loss | UnderWay::Record { awaited: true, .. })));
        let pending = self.journal.is_some() && (self.urgent || self.needed);
        !(self.lost || awaited || pending)
    }

    /// Files are to be begun beside their names, which another run must find: they are made of the identity in the
    /// journal.
    pub fn need(&mut self) {
        self.needed |= !self.on_disk;
    }

    /// A file has its name: what was noted of it, now or before, is of no use.
    pub fn finished(&mut self, name: &Name, at: &FilePath) {
        self.touched.remove(at);
        self.void_all(name, None);
    }

    fn void_all(&mut self, name: &Name, but: Option<FileNumber>) -> bool {
        let journal = self.journal.as_mut().filter(|journal| !journal.is_empty());
        let any = journal.is_some_and(|journal| journal.void_all(all_of(name), but));
        if any {
            self.taken_back.insert(all_of(name).start);
        }
        any
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
            let at = self.partial(name);
            // What the journal told of is there, and nobody knows of it any more.
            match self.void_all(name, None) {
                true => self.unwanted.push(at),
                false => self.possible.push(at),
            }
        }
    }

    /// Whether more entries may be judged. It is so again when some of what waits is being removed.
    pub fn has_room(&self) -> bool {
        self.unwanted.len() + self.possible.len() < MOST_UNWANTED
    }

    /// Whether anything is under way.
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether there is nothing to do any more.
    pub fn is_over(&self) -> bool {
        let urgent = self.journal.is_some() && self.urgent;
        let removed = self.unwanted.is_empty() && self.possible.is_empty();
        !self.is_busy() && removed && !urgent && !self.lost
    }

    /// What to do now, if it is time.
    pub fn next<B>(&mut self) -> Option<Operation<B>> {
        let step = if self.sync == Sync::None { STEP } else { STEP_SYNCED };
        self.do_next(step)
    }

    /// What to do before all is given up.
    pub fn last<B>(&mut self) -> Option<Operation<B>> {
        self.possible.clear();
        self.do_next(1)
    }

    fn do_next<B>(&mut self, step: u64) -> Option<Operation<B>> {
        if self.is_busy() {
            return None;
        }
        if std::mem::take(&mut self.lost) {
            self.given = UnderWay::Loss;
            return Some(Operation::Remove(vec![FilePath::new(0, JOURNAL)]));
        }
        // Who waits for room waits for no more than one record, and a record for no more than one removal.
        let due = self.bytes >= step && (self.has_room() || self.removed);
        if self.journal.is_some() && (self.urgent || self.needed || due) {
            return self.record();
        }
        self.given = UnderWay::Removal;
        let some = self.some_unwanted();
        self.removed = !some.is_empty();
        self.removed.then_some(Operation::Remove(some))
    }

    /// Some of what is to be removed, what is known to be there first.
    fn some_unwanted(&mut self) -> Vec<FilePath> {
        let from = if self.unwanted.is_empty() { &mut self.possible } else { &mut self.unwanted };
        from.drain(..from.len().min(REMOVED_AT_ONCE)).collect()
    }

    fn record<B>(&mut self) -> Option<Operation<B>> {
        let journal = self.journal.as_mut()?;
        let synced = self.sync != Sync::None;
        let (mut after, mut names) = (Vec::new(), Vec::new());
        for (at, Touched { key, name, extents }) in std::mem::take(&mut self.touched) {
            extents.iter().for_each(|extent| journal.durable(key, extent));
            if synced {
                after.push([at, FilePath::new(0, name.as_bytes())]);
                names.push(name);
            }
        }
        (self.bytes, self.removed) = (0, false);
        // A crash of the machine in the midst of that would bring back what was taken back.
        if self.anew.is_none() && !synced && journal.is_bloated() {
            self.anew = Some(journal.compact());
        }
        let mut bytes = self.anew.take().inspect(|_| self.offset = 0).unwrap_or_default();
        bytes.append(&mut journal.take_log());
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        let sync = synced || self.urgent;
        self.taken_back.clear();
        let awaited = self.urgent || self.needed || !self.on_disk;
        let again = (!names.is_empty()).then(|| (offset, bytes.clone()));
        self.given = UnderWay::Record { names, awaited, is_new: !self.on_disk, again };
        (self.urgent, self.needed, self.on_disk) = (false, false, true);
        Some(Operation::Record(Record { journal: FilePath::new(0, JOURNAL), offset, bytes, after, sync }))
    }

    /// What [`Notes::next`] or [`Notes::last`] gave was submitted.
    pub fn began(&mut self, ticket: Ticket) {
        self.under_way = Some((ticket, std::mem::replace(&mut self.given, UnderWay::Removal)));
    }

    /// An operation ended. If it was one of these, tells which files could not be made durable, and why.
    pub fn done(&mut self, ticket: Ticket, results: &[Result<(), Fault>]) -> Option<Vec<(Name, Fault)>> {
        let (_, ended) = self.under_way.take_if(|(under_way, _)| *under_way == ticket)?;
        let UnderWay::Record { names, is_new, again, .. } = ended else { return Some(Vec::new()) };
        let (noted, durable) = results.split_last()?;
        let failed =
            |(name, result): (Name, &Result<(), Fault>)| Some((name, result.as_ref().err()?.clone()));
        let failed: Vec<(Name, Fault)> = names.into_iter().zip(durable).filter_map(failed).collect();
        match noted {
            Ok(()) => {}
            Err(_) if !failed.is_empty() => self.note_without(&failed, is_new, again),
            Err(fault) => self.lose(fault, is_new),
        }
        Some(failed)
    }

    /// Nothing was written, as these files could not be made durable: that is noted once more, and that nothing is known of them.
    fn note_without(&mut self, failed: &[(Name, Fault)], is_new: bool, again: Option<(u64, Vec<u8>)>) {
        self.on_disk &= !is_new;
        if let (Some((offset, bytes)), Some(journal)) = (again, &mut self.journal) {
            self.offset = offset;
            journal.put_back(bytes);
        }
        for (name, _) in failed {
            self.void_all(name, None);
        }
        self.urgent = self.journal.is_some();
    }

    /// The journal could not be written: a full disk, or another transfer has it. Nothing can be continued later, and nothing else is wrong.
    fn lose(&mut self, fault: &Fault, is_new: bool) {
        self.journal = None;
        self.touched.clear();
        // What could not be made is not removed, nor another one's.
        let is_none = is_new && matches!(fault.why, Why::Exists | Why::ReadOnly | Why::Permission);
        (self.lost, self.on_disk) = (!is_none, false);
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TransferId = TransferId([7; 16]);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes().to_vec()).expect("a name")
    }

    fn key(name: &Name) -> FileNumber {
        FileNumber::new(all_of(name).start | 1).expect("a number")
    }

    /// What is to be done now, as it was submitted.
    fn begun(notes: &mut Notes, ticket: Ticket) -> Option<Operation<()>> {
        let operation = notes.next::<()>()?;
        notes.began(ticket);
        Some(operation)
    }

    /// The journal says that this much of a file is there.
    fn noted(file: &str, sync: Sync) -> Notes {
        let mut notes = Notes::new(ID, sync, Distrusts(false));
        let (name, at) = (name(file), FilePath::new(0, file.as_bytes()));
        notes.need();
        assert!(!notes.is_clean() && begun(&mut notes, 1).is_some());
        assert!(!notes.is_clean(), "it is not there yet");
        assert!(notes.done(1, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && notes.is_clean());
        notes.wrote(key(&name), &name, &at, Extent::between(0, STEP).expect("bytes"));
        notes
    }

    impl Notes {
        /// Whether all of a file is still to be moved, of which the journal says something.
        fn key_is_left(&self, file: &str) -> bool {
            let content = Content::dense(STEP).expect("a size");
            self.left(key(&name(file)), &content).is_none_or(|left| !left.is_empty())
        }
    }

    #[test]
    fn what_is_taken_back_is_on_disk_before_anything_is_begun() {
        let mut notes = noted("a", Sync::None);
        assert!(begun(&mut notes, 2).is_some());
        assert!(notes.is_clean(), "nobody waits for what comes to be there");
        notes.void(&name("b"), None);
        assert!(notes.is_clean(), "nothing was said of it");
        notes.void(&name("a"), Some(key(&name("a"))));
        assert!(notes.is_clean(), "nothing was said of other versions");
        notes.void(&name("a"), None);
        notes.done(2, &[Ok(())]);
        assert!(!notes.is_clean(), "what was under way did not say so");
        let Some(Operation::Record(record)) = begun(&mut notes, 3) else { panic!("it is to be noted") };
        assert!(record.sync && !notes.is_clean());
        notes.done(3, &[Ok(())]);
        assert!(notes.is_clean());
    }

    #[test]
    fn a_name_that_failed_is_not_begun_again_before_that_is_noted() {
        let mut notes = noted("a", Sync::None);
        assert!(begun(&mut notes, 2).is_some());
        notes.done(2, &[Ok(())]);
        notes.forget(&name("a"), FilePath::new(0, *b"a"));
        assert!(notes.is_clean());
        notes.void(&name("a"), None);
        assert!(!notes.is_clean());
    }

    #[test]
    fn a_journal_of_this_time_is_gone_on_with_where_it_ended_and_another_is_made_anew_at_once() {
        let mut notes = noted("a", Sync::File);
        let Some(Operation::Record(first)) = notes.last::<()>() else { panic!("it is to be noted") };
        let mut before = Journal::new(TransferId([&FOR_EVER[..], &[7; 8]].concat().try_into().expect("16")));
        before.durable(key(&name("a")), Extent::between(0, STEP).expect("bytes"));
        let bytes = before.take_log();
        assert_eq!((first.offset, first.offset + first.bytes.len() as u64), (30, bytes.len() as u64));
        let mut again = Notes::new(TransferId([9; 16]), Sync::File, Distrusts(false));
        again.found(&bytes);
        assert!(again.is_clean() && !again.key_is_left("a"));
        again.void(&name("a"), None);
        let Some(Operation::Record(record)) = begun(&mut again, 1) else { panic!("it is to be noted") };
        assert_eq!(record.offset, bytes.len() as u64);
        let mut plain = Notes::new(TransferId([9; 16]), Sync::None, Distrusts(false));
        plain.found(&bytes);
        assert!(!plain.is_clean() && !plain.key_is_left("a"));
        let Some(Operation::Record(record)) = begun(&mut plain, 1) else { panic!("it is to be noted") };
        assert!(record.offset == 0 && record.sync);
    }

    #[test]
    fn a_journal_that_cannot_be_written_goes_before_anything_is_begun() {
        let mut notes = noted("a", Sync::None);
        assert!(begun(&mut notes, 2).is_some());
        let full = Fault::new(Why::NoSpace, "full");
        assert_eq!(notes.done(2, &[Err(full)]), Some(Vec::new()));
        assert!(!notes.is_clean() && !notes.is_over());
        let Some(Operation::Remove(names)) = begun(&mut notes, 3) else { panic!("it is to go") };
        assert_eq!(names, [FilePath::new(0, JOURNAL)]);
        assert!(!notes.is_clean());
        notes.done(3, &[Ok(())]);
        assert!(notes.is_clean() && notes.is_over() && matches!(notes.close(false), Close::Leave));
    }

    #[test]
    fn what_cannot_be_made_durable_is_told_by_its_name() {
        let mut notes = noted("a", Sync::File);
        let rest = Extent::between(STEP, STEP_SYNCED).expect("bytes");
        notes.wrote(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), rest);
        let Some(Operation::Record(record)) = begun(&mut notes, 2) else { panic!("it is to be noted") };
        assert_eq!(record.after.len(), 1);
        let broken = Fault::new(Why::Other, "broken");
        let told = notes.done(2, &[Err(broken.clone()), Err(broken.clone())]);
        assert_eq!(told, Some(vec![(name("a"), broken)]));
    }

    #[test]
    fn what_cannot_be_made_durable_costs_others_nothing() {
        let mut notes = noted("a", Sync::File);
        let header = Journal::new(notes.transfer).take_log();
        let all = Extent::between(0, STEP_SYNCED).expect("bytes");
        notes.wrote(key(&name("b")), &name("b"), &FilePath::new(0, *b"b"), all);
        let Some(Operation::Record(record)) = begun(&mut notes, 2) else { panic!("it is to be noted") };
        let offset = record.offset;
        assert_eq!(record.after.len(), 2);
        let broken = Err(Fault::new(Why::Permission, "not for us"));
        assert!(notes.done(2, &[broken.clone(), Ok(()), broken]).is_some_and(|failed| failed.len() == 1));
        let Some(Operation::Record(record)) = begun(&mut notes, 3) else { panic!("it is noted again") };
        assert!(record.offset == offset && record.sync && record.after.is_empty());
        assert!(notes.done(3, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && notes.is_clean());
        let mut again = Notes::new(ID, Sync::File, Distrusts(false));
        again.found(&[header, record.bytes].concat());
        assert!(again.key_is_left("a") && !again.key_is_left("b"));
    }

    #[test]
    fn a_long_journal_is_made_short() {
        let mut notes = noted("a", Sync::None);
        let (mut longest, mut offset) = (0, 0);
        for step in 0..2_000 {
            let next = Extent::at(step * STEP, STEP).expect("bytes");
            notes.wrote(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), next);
            let Some(Operation::Record(record)) = begun(&mut notes, 2) else { panic!("it is to be noted") };
            notes.done(2, &[Ok(())]);
            longest = longest.max(offset);
            offset = record.offset + record.bytes.len() as u64;
        }
        assert!(longest < 40_000 && offset < longest, "{longest} {offset}");
    }

    /// Notes of a run after one that was cut, and what it noted of a file.
    fn after_a_cut(file: &str) -> Notes {
        let mut before = Journal::new(ID);
        before.durable(key(&name(file)), Extent::between(0, STEP).expect("bytes"));
        let mut notes = Notes::new(ID, Sync::None, Distrusts(false));
        notes.found(&before.take_log());
        notes
    }

    #[test]
    fn what_a_run_may_have_left_is_removed_bit_by_bit_and_holds_others_up() {
        let mut notes = after_a_cut("a");
        (1..MOST_UNWANTED).for_each(|number| notes.leave_none(&name(&number.to_string())));
        assert!(notes.has_room());
        notes.leave_none(&name("last"));
        assert!(!notes.has_room());
        // A record that nobody waits for comes later, and is not forgotten.
        notes.wrote(
            key(&name("a")),
            &name("a"),
            &FilePath::new(0, *b"a"),
            Extent::at(0, STEP).expect("bytes"),
        );
        let (mut removed, mut records) = (Vec::new(), 0);
        while let Some(operation) = begun(&mut notes, 1) {
            match operation {
                Operation::Remove(some) => {
                    assert!(some.len() <= REMOVED_AT_ONCE && records == usize::from(!removed.is_empty()));
                    removed.extend(some);
                }
                _ => records += 1,
            }
            assert!(notes.has_room() && notes.next::<()>().is_none(), "one at a time");
            notes.done(1, &[Ok(())]);
        }
        assert!(notes.is_over() && removed.len() == MOST_UNWANTED && records == 1);
        assert_eq!(removed.last(), Some(&notes.partial(&name("last"))));
    }

    /// Names of which something may be left come without an end.
    #[test]
    fn a_record_waits_for_no_more_than_one_removal() {
        let mut notes = after_a_cut("a");
        let mut names = (0..).map(|number: u32| name(&number.to_string()));
        let part = Extent::at(0, STEP).expect("bytes");
        notes.wrote(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), part);
        for removed in [true, false] {
            while notes.has_room() {
                notes.leave_none(&names.next().expect("another one"));
            }
            let operation = begun(&mut notes, 1);
            assert_eq!(matches!(operation, Some(Operation::Remove(_))), removed, "{operation:?}");
            notes.done(1, &[Ok(())]);
        }
    }

    #[test]
    fn who_is_given_up_removes_what_is_known_to_be_there_and_leaves_the_rest_to_the_next_run() {
        let mut notes = after_a_cut("a");
        let other = FilePath::new(0, *b"other");
        (0..3_000).for_each(|number| notes.leave_none(&name(&number.to_string())));
        notes.leave_none(&name("a"));
        notes.forget(&name("other"), other.clone());
        let Some(Operation::Remove(removed)) = notes.last::<()>() else { panic!("they are to go") };
        assert_eq!(removed, [notes.partial(&name("a")), other]);
        notes.began(1);
        notes.done(1, &[Ok(())]);
        assert!(notes.last::<()>().is_none() && notes.is_over());
    }
}
