//! The journal on disk, and partial files that are to be removed.
//!
//! What the journal says of a partial file must be true whenever a run reads it. So whatever takes that back is on
//! disk before the file is begun anew: [`ResumeLog::may_start_files`] tells when it is.
//!
//! After a run that was cut each name that is not written may have a partial file, and mostly has none: nobody knows before it is tried.
//! So that neither memory nor what an interrupt waits for grows with their number, entries are judged no faster than they are tried.

use super::SyncMode;
use crate::entry::{Content, FileNumber, Inode, Time, CTIME_MIN_SIZE};
use crate::extent::{Extent, ExtentSet};
use crate::journal::{Journal, JournalReader};
use crate::name::Name;
use crate::own_files::{partial_name, JOURNAL};
use crate::wire::TransferId;
use numaio_machine::port::{Fault, FilePath, Operation, Record, Ticket, Why};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Smallest file that is noted in the journal, in bytes: less is sent anew as quickly.
pub const MIN_RESUMABLE: u64 = CTIME_MIN_SIZE;
/// Most bytes of a journal that is read: what it says of some 40 TB.
pub const MAX_JOURNAL: usize = 64 << 20;
/// Bytes that were written and not noted, at which they are noted.
const RECORD_INTERVAL: u64 = 16 << 20;
/// The same if they must be made durable before.
const RECORD_INTERVAL_SYNCED: u64 = 256 << 20;
/// Partial files that wait to be removed, from which on no more entries are judged.
const MAX_PENDING_REMOVALS: usize = 4_096;
/// Most of them that one operation removes.
const REMOVAL_BATCH: usize = 512;
/// Where a journal has the identity of its transfer.
const ID_RANGE: Range<usize> = 10..26;
/// Bytes of an identity that tell how long the journal holds; the others make names of partial files.
const EPOCH_BYTES: usize = 8;
/// Those of them that all tries of one command have.
pub const SERIES: Range<usize> = EPOCH_BYTES..12;
/// The epoch of a journal that speaks only of what was made durable.
const PERMANENT: [u8; EPOCH_BYTES] = [0; EPOCH_BYTES];

/// Whether size and time do not tell versions of a file apart for the user, who has hashes compared, or moves all: then nothing is
/// gone on with but what the same command began.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimesUnreliable(pub bool);

/// What is known of partial files, and what of that is on disk.
#[derive(Debug)]
pub(super) struct ResumeLog {
    transfer: TransferId,
    /// What files are noted under beside what is known of them.
    series: Vec<u8>,
    sync: SyncMode,
    journal: Option<Journal>,
    /// A compact journal that begins the file anew.
    rewrite: Option<Vec<u8>>,
    /// Where the next bytes go.
    offset: u64,
    /// Whether there is a file on disk.
    on_disk: bool,
    /// Whether partial files of a transfer before this one may be there.
    has_previous: bool,
    /// Files that were written to since the last note, by where they are.
    unrecorded: BTreeMap<FilePath, UnrecordedWrites>,
    /// Bytes written to them.
    bytes: u64,
    /// Something that was noted does not hold any more, and the next record says so.
    record_due: bool,
    /// The journal is to be there before files are begun, and the next record makes it.
    journal_needed: bool,
    /// It could not be written. What is on disk may not hold any more, and goes.
    journal_failed: bool,
    /// Files of which nothing is believed any more, though what is on disk still says so.
    invalidated: HashSet<u64>,
    /// Nothing more comes to be noted.
    final_record: bool,
    /// Partial files that are to go.
    obsolete: Vec<FilePath>,
    /// Those that a run before this one may have left: if this one is given up, the next one asks for them again.
    possible_leftovers: Vec<FilePath>,
    /// Whether some were removed since the last record.
    removed_since_record: bool,
    in_flight: Option<(Ticket, InFlight)>,
    /// What was given to be submitted.
    prepared: InFlight,
}

#[derive(Debug)]
struct UnrecordedWrites {
    key: FileNumber,
    name: Name,
    extents: ExtentSet,
}

#[derive(Debug)]
enum InFlight {
    /// The journal is written to, after files of these names were made durable; whether files wait for it that are to be begun, and
    /// whether it is made.
    Record {
        names: Vec<Name>,
        awaited: bool,
        is_new: bool,
        /// What is written and where, if names are made durable first: of them it depends whether it is.
        retry: Option<(u64, Vec<u8>)>,
    },
    /// The journal goes.
    JournalRemoval,
    PartialsRemoval,
}

impl ResumeLog {
    pub fn new(mut transfer: TransferId, sync: SyncMode, times_unreliable: TimesUnreliable) -> Self {
        let TimesUnreliable(times_unreliable) = times_unreliable;
        let series = if times_unreliable { transfer.0[SERIES].to_vec() } else { Vec::new() };
        if sync != SyncMode::None {
            transfer.0[..EPOCH_BYTES].copy_from_slice(&PERMANENT);
        }
        Self {
            transfer,
            series,
            sync,
            journal: Some(Journal::new(transfer)),
            rewrite: None,
            offset: 0,
            on_disk: false,
            has_previous: false,
            unrecorded: BTreeMap::new(),
            bytes: 0,
            record_due: false,
            journal_needed: false,
            journal_failed: false,
            invalidated: HashSet::new(),
            final_record: false,
            obsolete: Vec::new(),
            possible_leftovers: Vec::new(),
            removed_since_record: false,
            in_flight: None,
            prepared: InFlight::PartialsRemoval,
        }
    }

    /// Where a file is until it has this name.
    pub fn partial(&self, name: &Name) -> FilePath {
        let mut id = self.transfer;
        id.0[..EPOCH_BYTES].copy_from_slice(&PERMANENT);
        FilePath::new(0, partial_name(id, name))
    }

    /// The journal of a transfer before this one is there.
    pub fn load(&mut self, bytes: &[u8]) {
        self.on_disk = true;
        let id = bytes.get(ID_RANGE).and_then(|id| id.first_chunk::<16>()).copied().map(TransferId);
        let mut reader = JournalReader::new(id.unwrap_or(self.transfer));
        let read = reader.push(bytes).and_then(|()| reader.finish()).ok();
        // The partial files of that transfer get written over, whether or not what was noted holds.
        if let (Some(id), Some(_)) = (id, &read) {
            self.transfer.0[EPOCH_BYTES..].copy_from_slice(&id.0[EPOCH_BYTES..]);
            self.has_previous = true;
        }
        let holds = |id: TransferId| id.0[..EPOCH_BYTES] == PERMANENT || id.0[..EPOCH_BYTES] == self.transfer.0[..EPOCH_BYTES];
        // One that was read in part may lack what took something back.
        let held = read.filter(|_| id.is_some_and(holds) && bytes.len() < MAX_JOURNAL);
        let (mut journal, valid) = held.unwrap_or_else(|| (Journal::new(self.transfer), 0));
        if valid > 0 && id == Some(self.transfer) {
            // It goes on where it ended: what is written over may come back after a crash.
            self.offset = valid;
        } else {
            journal.continue_as(self.transfer);
            self.rewrite = Some(journal.compact());
            self.record_due = true;
        }
        self.journal = Some(journal);
    }

    /// There is no journal: what is cut cannot be continued.
    pub fn disable(&mut self) {
        self.journal = None;
    }

    /// Whether there is a journal, or will be.
    pub fn is_enabled(&self) -> bool {
        self.journal.is_some()
    }

    /// The number under which a file is noted, if it is large enough.
    pub fn key(&self, name: &Name, inode: &Inode, content: &Content) -> Option<FileNumber> {
        if content.size() < MIN_RESUMABLE || self.journal.is_none() {
            return None;
        }
        let bytes =
            |time: Time| [&time.seconds().to_be_bytes()[..], &time.nanoseconds().to_be_bytes()[..]].concat();
        let (size, mtime) = (content.size().to_be_bytes(), bytes(inode.mtime));
        let changed = content.ctime().map(bytes).unwrap_or_default();
        let facts = [&size[..], &mtime, &self.series, name.as_bytes(), b"\0", &changed];
        FileNumber::new(key_range(name).start | hash(&facts.concat())).ok()
    }

    /// What of a file is not durable.
    pub fn missing(&self, key: FileNumber, content: &Content) -> Option<ExtentSet> {
        self.journal.as_ref().map(|journal| journal.missing(key, content))
    }

    /// Part of a file was written.
    pub fn record_write(&mut self, key: FileNumber, name: &Name, at: &FilePath, extent: Extent) {
        if self.journal.is_none() {
            return;
        }
        self.bytes += extent.length();
        let new = || UnrecordedWrites { key, name: name.clone(), extents: ExtentSet::default() };
        self.unrecorded.entry(at.clone()).or_insert_with(new).extents.insert(extent);
    }

    /// A file is to be written anew, or gone on with under a number: nothing that was noted of it under others holds any more.
    pub fn invalidate_versions(&mut self, name: &Name, but: Option<FileNumber>) {
        self.record_due |= self.invalidate_all(name, but) || self.invalidated.contains(&key_range(name).start);
    }

    /// Whether files may be begun anew.
    pub fn may_start_files(&self) -> bool {
        let awaited =
            matches!(self.in_flight, Some((_, InFlight::JournalRemoval | InFlight::Record { awaited: true, .. })));
        let pending = self.journal.is_some() && (self.record_due || self.journal_needed);
        !(self.journal_failed || awaited || pending)
    }

    /// Files are to be begun beside their names, which another run must find: they are made of the identity in the
    /// journal.
    pub fn require_journal(&mut self) {
        self.journal_needed |= !self.on_disk;
    }

    /// A file has its name: what was noted of it, now or before, is of no use.
    pub fn file_completed(&mut self, name: &Name, at: &FilePath) {
        self.unrecorded.remove(at);
        self.invalidate_all(name, None);
    }

    fn invalidate_all(&mut self, name: &Name, but: Option<FileNumber>) -> bool {
        let journal = self.journal.as_mut().filter(|journal| !journal.is_empty());
        let any = journal.is_some_and(|journal| journal.invalidate(key_range(name), but));
        if any {
            self.invalidated.insert(key_range(name).start);
        }
        any
    }

    /// A partial file is to be removed.
    pub fn discard_partial(&mut self, name: &Name, at: FilePath) {
        self.file_completed(name, &at);
        self.obsolete.push(at);
    }

    /// What has this name is not written now. It may have been begun before, when it was another kind of object, or the scan met
    /// names of one file in another order.
    pub fn discard_leftover(&mut self, name: &Name) {
        if self.has_previous {
            let at = self.partial(name);
            // What the journal told of is there, and nobody knows of it any more.
            match self.invalidate_all(name, None) {
                true => self.obsolete.push(at),
                false => self.possible_leftovers.push(at),
            }
        }
    }

    /// Whether more entries may be judged. It is so again when some of what waits is being removed.
    pub fn has_capacity(&self) -> bool {
        self.obsolete.len() + self.possible_leftovers.len() < MAX_PENDING_REMOVALS
    }

    /// Whether anything is under way.
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether there is nothing to do any more.
    pub fn is_finished(&self) -> bool {
        let record_due = self.journal.is_some() && self.record_due;
        let removed = self.obsolete.is_empty() && self.possible_leftovers.is_empty();
        !self.is_busy() && removed && !record_due && !self.journal_failed
    }

    /// What to do now, if it is time.
    pub fn next<B>(&mut self) -> Option<Operation<B>> {
        let step = if self.sync == SyncMode::None { RECORD_INTERVAL } else { RECORD_INTERVAL_SYNCED };
        self.next_operation(step)
    }

    /// What to do before all is given up.
    pub fn next_final<B>(&mut self) -> Option<Operation<B>> {
        self.possible_leftovers.clear();
        self.next_operation(1)
    }

    fn next_operation<B>(&mut self, step: u64) -> Option<Operation<B>> {
        if self.is_busy() {
            return None;
        }
        if std::mem::take(&mut self.journal_failed) {
            self.prepared = InFlight::JournalRemoval;
            return Some(Operation::Remove(vec![FilePath::new(0, JOURNAL)]));
        }
        // Who waits for room waits for no more than one record, and a record for no more than one removal.
        let due = self.bytes >= step && (self.has_capacity() || self.removed_since_record);
        if self.journal.is_some() && (self.record_due || self.journal_needed || due) {
            return self.record();
        }
        self.prepared = InFlight::PartialsRemoval;
        let some = self.next_removals();
        self.removed_since_record = !some.is_empty();
        self.removed_since_record.then_some(Operation::Remove(some))
    }

    /// Some of what is to be removed, what is known to be there first.
    fn next_removals(&mut self) -> Vec<FilePath> {
        let from = if self.obsolete.is_empty() { &mut self.possible_leftovers } else { &mut self.obsolete };
        from.drain(..from.len().min(REMOVAL_BATCH)).collect()
    }

    fn record<B>(&mut self) -> Option<Operation<B>> {
        let journal = self.journal.as_mut()?;
        let synced = self.sync != SyncMode::None;
        let (mut after, mut names) = (Vec::new(), Vec::new());
        for (at, UnrecordedWrites { key, name, extents }) in std::mem::take(&mut self.unrecorded) {
            extents.iter().for_each(|extent| journal.mark_durable(key, extent));
            if synced {
                after.push([at, FilePath::new(0, name.as_bytes())]);
                names.push(name);
            }
        }
        (self.bytes, self.removed_since_record) = (0, false);
        // A crash of the machine in the midst of that would bring back what was taken back.
        if self.rewrite.is_none() && !synced && journal.is_bloated() {
            self.rewrite = Some(journal.compact());
        }
        let mut bytes = self.rewrite.take().inspect(|_| self.offset = 0).unwrap_or_default();
        bytes.append(&mut journal.take_pending());
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        let sync = synced || self.record_due;
        self.invalidated.clear();
        let awaited = self.record_due || self.journal_needed || !self.on_disk;
        let retry = (!names.is_empty()).then(|| (offset, bytes.clone()));
        self.prepared = InFlight::Record { names, awaited, is_new: !self.on_disk, retry };
        (self.record_due, self.journal_needed, self.on_disk) = (false, false, true);
        Some(Operation::Record(Record { journal: FilePath::new(0, JOURNAL), offset, bytes, after, sync }))
    }

    /// What [`ResumeLog::next`] or [`ResumeLog::last`] gave was submitted.
    pub fn submitted(&mut self, ticket: Ticket) {
        self.in_flight = Some((ticket, std::mem::replace(&mut self.prepared, InFlight::PartialsRemoval)));
    }

    /// An operation ended. If it was one of these, tells which files could not be made durable, and why.
    pub fn completed(&mut self, ticket: Ticket, results: &[Result<(), Fault>]) -> Option<Vec<(Name, Fault)>> {
        let (_, ended) = self.in_flight.take_if(|(in_flight, _)| *in_flight == ticket)?;
        let InFlight::Record { names, is_new, retry, .. } = ended else { return Some(Vec::new()) };
        let (with_recorded_part, durable) = results.split_last()?;
        let failed =
            |(name, result): (Name, &Result<(), Fault>)| Some((name, result.as_ref().err()?.clone()));
        let failed: Vec<(Name, Fault)> = names.into_iter().zip(durable).filter_map(failed).collect();
        match with_recorded_part {
            Ok(()) => {}
            Err(_) if !failed.is_empty() => self.retry_without(&failed, is_new, retry),
            Err(fault) => self.journal_write_failed(fault, is_new),
        }
        Some(failed)
    }

    /// Nothing was written, as these files could not be made durable: that is noted once more, and that nothing is known of them.
    fn retry_without(&mut self, failed: &[(Name, Fault)], is_new: bool, retry: Option<(u64, Vec<u8>)>) {
        self.on_disk &= !is_new;
        if let (Some((offset, bytes)), Some(journal)) = (retry, &mut self.journal) {
            self.offset = offset;
            journal.restore_pending(bytes);
        }
        for (name, _) in failed {
            self.invalidate_all(name, None);
        }
        self.record_due = self.journal.is_some();
    }

    /// The journal could not be written: a full disk, or another transfer has it. Nothing can be continued later, and nothing else is wrong.
    fn journal_write_failed(&mut self, fault: &Fault, is_new: bool) {
        self.journal = None;
        self.unrecorded.clear();
        // What could not be made is not removed, nor another one's.
        let was_never_created = is_new && matches!(fault.why, Why::Exists | Why::ReadOnly | Why::Permission);
        (self.journal_failed, self.on_disk) = (!was_never_created, false);
    }

    /// At the end there is no use for the journal, unless it knows partial files of another transfer to the same place that is not
    /// gone on with yet: that is so if it is told first to have what it says now on disk, and then to stay.
    pub fn close(&mut self, partials_are_gone: bool) -> CloseAction {
        let is_of_use =
            self.journal.as_ref().is_some_and(|journal| !journal.is_empty()) && !partials_are_gone;
        if is_of_use && !std::mem::replace(&mut self.final_record, true) {
            self.record_due = true;
            return CloseAction::Write;
        }
        self.journal = None;
        match std::mem::take(&mut self.on_disk) && !is_of_use {
            true => CloseAction::Remove(FilePath::new(0, JOURNAL)),
            false => CloseAction::Keep,
        }
    }
}

/// What to do with the journal at the end.
#[derive(Debug)]
pub(super) enum CloseAction {
    /// What is known now is to be on disk first.
    Write,
    Keep,
    Remove(FilePath),
}

/// The numbers under which files of a name are noted, whatever their sizes and times.
fn key_range(name: &Name) -> Range<u64> {
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

    const ID_RANGE: TransferId = TransferId([7; 16]);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes().to_vec()).expect("a name")
    }

    fn key(name: &Name) -> FileNumber {
        FileNumber::new(key_range(name).start | 1).expect("a number")
    }

    /// What is to be done now, as it was submitted.
    fn submit_next(log: &mut ResumeLog, ticket: Ticket) -> Option<Operation<()>> {
        let operation = log.next::<()>()?;
        log.submitted(ticket);
        Some(operation)
    }

    /// The journal says that this much of a file is there.
    fn with_recorded_part(file: &str, sync: SyncMode) -> ResumeLog {
        let mut log = ResumeLog::new(ID_RANGE, sync, TimesUnreliable(false));
        let (name, at) = (name(file), FilePath::new(0, file.as_bytes()));
        log.require_journal();
        assert!(!log.may_start_files() && submit_next(&mut log, 1).is_some());
        assert!(!log.may_start_files(), "it is not there yet");
        assert!(log.completed(1, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && log.may_start_files());
        log.record_write(key(&name), &name, &at, Extent::between(0, RECORD_INTERVAL).expect("bytes"));
        log
    }

    impl ResumeLog {
        /// Whether all of a file is still to be moved, of which the journal says something.
        fn key_is_left(&self, file: &str) -> bool {
            let content = Content::dense(RECORD_INTERVAL).expect("a size");
            self.missing(key(&name(file)), &content).is_none_or(|left| !left.is_empty())
        }
    }

    #[test]
    fn what_is_taken_back_is_on_disk_before_anything_is_begun() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        assert!(log.may_start_files(), "nobody waits for what comes to be there");
        log.invalidate_versions(&name("b"), None);
        assert!(log.may_start_files(), "nothing was said of it");
        log.invalidate_versions(&name("a"), Some(key(&name("a"))));
        assert!(log.may_start_files(), "nothing was said of other versions");
        log.invalidate_versions(&name("a"), None);
        log.completed(2, &[Ok(())]);
        assert!(!log.may_start_files(), "what was under way did not say so");
        let Some(Operation::Record(record)) = submit_next(&mut log, 3) else { panic!("it is to be noted") };
        assert!(record.sync && !log.may_start_files());
        log.completed(3, &[Ok(())]);
        assert!(log.may_start_files());
    }

    #[test]
    fn a_name_that_failed_is_not_begun_again_before_that_is_noted() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        log.completed(2, &[Ok(())]);
        log.discard_partial(&name("a"), FilePath::new(0, *b"a"));
        assert!(log.may_start_files());
        log.invalidate_versions(&name("a"), None);
        assert!(!log.may_start_files());
    }

    #[test]
    fn a_journal_of_this_time_is_gone_on_with_where_it_ended_and_another_is_made_anew_at_once() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let Some(Operation::Record(first)) = log.next_final::<()>() else { panic!("it is to be noted") };
        let mut before = Journal::new(TransferId([&PERMANENT[..], &[7; 8]].concat().try_into().expect("16")));
        before.mark_durable(key(&name("a")), Extent::between(0, RECORD_INTERVAL).expect("bytes"));
        let bytes = before.take_pending();
        assert_eq!((first.offset, first.offset + first.bytes.len() as u64), (30, bytes.len() as u64));
        let mut retry = ResumeLog::new(TransferId([9; 16]), SyncMode::File, TimesUnreliable(false));
        retry.load(&bytes);
        assert!(retry.may_start_files() && !retry.key_is_left("a"));
        retry.invalidate_versions(&name("a"), None);
        let Some(Operation::Record(record)) = submit_next(&mut retry, 1) else { panic!("it is to be noted") };
        assert_eq!(record.offset, bytes.len() as u64);
        let mut plain = ResumeLog::new(TransferId([9; 16]), SyncMode::None, TimesUnreliable(false));
        plain.load(&bytes);
        assert!(!plain.may_start_files() && !plain.key_is_left("a"));
        let Some(Operation::Record(record)) = submit_next(&mut plain, 1) else { panic!("it is to be noted") };
        assert!(record.offset == 0 && record.sync);
    }

    #[test]
    fn a_journal_that_cannot_be_written_goes_before_anything_is_begun() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        let full = Fault::new(Why::NoSpace, "full");
        assert_eq!(log.completed(2, &[Err(full)]), Some(Vec::new()));
        assert!(!log.may_start_files() && !log.is_finished());
        let Some(Operation::Remove(names)) = submit_next(&mut log, 3) else { panic!("it is to go") };
        assert_eq!(names, [FilePath::new(0, JOURNAL)]);
        assert!(!log.may_start_files());
        log.completed(3, &[Ok(())]);
        assert!(log.may_start_files() && log.is_finished() && matches!(log.close(false), CloseAction::Keep));
    }

    #[test]
    fn what_cannot_be_made_durable_is_told_by_its_name() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let rest = Extent::between(RECORD_INTERVAL, RECORD_INTERVAL_SYNCED).expect("bytes");
        log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), rest);
        let Some(Operation::Record(record)) = submit_next(&mut log, 2) else { panic!("it is to be noted") };
        assert_eq!(record.after.len(), 1);
        let broken = Fault::new(Why::Other, "broken");
        let told = log.completed(2, &[Err(broken.clone()), Err(broken.clone())]);
        assert_eq!(told, Some(vec![(name("a"), broken)]));
    }

    #[test]
    fn what_cannot_be_made_durable_costs_others_nothing() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let header = Journal::new(log.transfer).take_pending();
        let all = Extent::between(0, RECORD_INTERVAL_SYNCED).expect("bytes");
        log.record_write(key(&name("b")), &name("b"), &FilePath::new(0, *b"b"), all);
        let Some(Operation::Record(record)) = submit_next(&mut log, 2) else { panic!("it is to be noted") };
        let offset = record.offset;
        assert_eq!(record.after.len(), 2);
        let broken = Err(Fault::new(Why::Permission, "not for us"));
        assert!(log.completed(2, &[broken.clone(), Ok(()), broken]).is_some_and(|failed| failed.len() == 1));
        let Some(Operation::Record(record)) = submit_next(&mut log, 3) else { panic!("it is noted again") };
        assert!(record.offset == offset && record.sync && record.after.is_empty());
        assert!(log.completed(3, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && log.may_start_files());
        let mut retry = ResumeLog::new(ID_RANGE, SyncMode::File, TimesUnreliable(false));
        retry.load(&[header, record.bytes].concat());
        assert!(retry.key_is_left("a") && !retry.key_is_left("b"));
    }

    #[test]
    fn a_long_journal_is_made_short() {
        let mut log = with_recorded_part("a", SyncMode::None);
        let (mut longest, mut offset) = (0, 0);
        for step in 0..2_000 {
            let next = Extent::at(step * RECORD_INTERVAL, RECORD_INTERVAL).expect("bytes");
            log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), next);
            let Some(Operation::Record(record)) = submit_next(&mut log, 2) else { panic!("it is to be noted") };
            log.completed(2, &[Ok(())]);
            longest = longest.max(offset);
            offset = record.offset + record.bytes.len() as u64;
        }
        assert!(longest < 40_000 && offset < longest, "{longest} {offset}");
    }

    /// Notes of a run after one that was cut, and what it noted of a file.
    fn after_interruption(file: &str) -> ResumeLog {
        let mut before = Journal::new(ID_RANGE);
        before.mark_durable(key(&name(file)), Extent::between(0, RECORD_INTERVAL).expect("bytes"));
        let mut log = ResumeLog::new(ID_RANGE, SyncMode::None, TimesUnreliable(false));
        log.load(&before.take_pending());
        log
    }

    #[test]
    fn what_a_run_may_have_left_is_removed_bit_by_bit_and_holds_others_up() {
        let mut log = after_interruption("a");
        (1..MAX_PENDING_REMOVALS).for_each(|number| log.discard_leftover(&name(&number.to_string())));
        assert!(log.has_capacity());
        log.discard_leftover(&name("last"));
        assert!(!log.has_capacity());
        // A record that nobody waits for comes later, and is not forgotten.
        log.record_write(
            key(&name("a")),
            &name("a"),
            &FilePath::new(0, *b"a"),
            Extent::at(0, RECORD_INTERVAL).expect("bytes"),
        );
        let (mut removed, mut records) = (Vec::new(), 0);
        while let Some(operation) = submit_next(&mut log, 1) {
            match operation {
                Operation::Remove(some) => {
                    assert!(some.len() <= REMOVAL_BATCH && records == usize::from(!removed.is_empty()));
                    removed.extend(some);
                }
                _ => records += 1,
            }
            assert!(log.has_capacity() && log.next::<()>().is_none(), "one at a time");
            log.completed(1, &[Ok(())]);
        }
        assert!(log.is_finished() && removed.len() == MAX_PENDING_REMOVALS && records == 1);
        assert_eq!(removed.last(), Some(&log.partial(&name("last"))));
    }

    /// Names of which something may be left come without an end.
    #[test]
    fn a_record_waits_for_no_more_than_one_removal() {
        let mut log = after_interruption("a");
        let mut names = (0..).map(|number: u32| name(&number.to_string()));
        let part = Extent::at(0, RECORD_INTERVAL).expect("bytes");
        log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), part);
        for removed in [true, false] {
            while log.has_capacity() {
                log.discard_leftover(&names.next().expect("another one"));
            }
            let operation = submit_next(&mut log, 1);
            assert_eq!(matches!(operation, Some(Operation::Remove(_))), removed, "{operation:?}");
            log.completed(1, &[Ok(())]);
        }
    }

    #[test]
    fn who_is_given_up_removes_what_is_known_to_be_there_and_leaves_the_rest_to_the_next_run() {
        let mut log = after_interruption("a");
        let other = FilePath::new(0, *b"other");
        (0..3_000).for_each(|number| log.discard_leftover(&name(&number.to_string())));
        log.discard_leftover(&name("a"));
        log.discard_partial(&name("other"), other.clone());
        let Some(Operation::Remove(removed)) = log.next_final::<()>() else { panic!("they are to go") };
        assert_eq!(removed, [log.partial(&name("a")), other]);
        log.submitted(1);
        log.completed(1, &[Ok(())]);
        assert!(log.next_final::<()>().is_none() && log.is_finished());
    }
}
