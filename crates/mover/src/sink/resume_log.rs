//! The journal file on disk, and when partial files may be started and removed.
//!
//! Records about a partial file must be true whenever a later run reads them. So an invalidation is
//! on disk before the file is restarted: see [`ResumeLog::may_start_files`].

use super::options::{AbandonedShard, SyncMode};
use super::partial_removals::PartialRemovals;
use crate::entry::{Content, FileNumber, Inode, Time, CTIME_MIN_SIZE};
use crate::extent::{Extent, ExtentSet};
use crate::journal::{BlockHash, Journal, JournalReader};
use crate::name::Name;
use crate::own_files::partial_name;
use crate::port::{Fault, FaultKind, FilePath, JournalWrite, Operation, Ticket};
use crate::wire::TransferId;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Minimum size of files that are recorded, in bytes: resuming smaller files usually saves no time.
const MIN_RESUMABLE: u64 = 8 << 20;
/// The same after an interruption: a line that breaks often may never carry more at once.
const MIN_RESUMABLE_AGAIN: u64 = CTIME_MIN_SIZE;
/// Maximum bytes of a journal that are read: enough for some 40 TB of data.
pub const MAX_JOURNAL: usize = 64 << 20;
/// Unrecorded bytes after which a record is written.
const RECORD_INTERVAL: u64 = 16 << 20;
/// The same if the data must be synced first.
const RECORD_INTERVAL_SYNCED: u64 = 256 << 20;
/// Position of the transfer identity in a journal.
const ID_RANGE: Range<usize> = 10..26;
/// Bytes of an identity that limit the validity of the journal; the others name partial files.
const EPOCH_BYTES: usize = 8;
/// Bytes of a [`TransferId`] that are equal for all attempts of one command.
pub const SERIES: Range<usize> = EPOCH_BYTES..12;
/// The epoch of a journal that records only synced data.
const PERMANENT: [u8; EPOCH_BYTES] = [0; EPOCH_BYTES];

/// Whether size and mtime do not identify versions of a file, because the user compares hashes or
/// transfers everything. Then only files started by the same command are resumed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimesUnreliable(pub bool);

/// The known partial files, and the part of this knowledge that is on disk.
///
/// Invariants: a range that the journal on disk lists of an existing partial file is durable and
/// belongs to the recorded version. At most one operation is in flight, so records reach the disk
/// in order. After a failed write there is no journal, and the file is removed before others are
/// started.
#[derive(Debug)]
pub(super) struct ResumeLog {
    transfer: TransferId,
    /// Additional bytes of the key under which a file is recorded.
    series: Vec<u8>,
    sync: SyncMode,
    /// The file.
    path: FilePath,
    /// Why the file could not be written, until it is reported.
    failure: Option<Fault>,
    journal: Option<Journal>,
    /// A compact journal that replaces the file.
    rewrite: Option<Vec<u8>>,
    /// Offset of the next write.
    offset: u64,
    /// Whether the file exists.
    on_disk: bool,
    /// Whether partial files of an earlier transfer may exist.
    has_previous: bool,
    /// Identities of abandoned shards, whose partial files are removed.
    abandoned_shards: Vec<TransferId>,
    /// Files with writes since the last record, by path.
    unrecorded: BTreeMap<FilePath, UnrecordedWrites>,
    /// Bytes written to them.
    bytes: u64,
    /// Whether the next record contains an invalidation that must be on disk.
    record_due: bool,
    /// Whether the journal must be created before files are started.
    journal_needed: bool,
    /// Whether a write failed. The file may be wrong by now and must be removed.
    journal_failed: bool,
    /// Files that are invalidated in memory but not yet on disk.
    invalidated: HashSet<u64>,
    /// Whether no further data will be recorded.
    final_record: bool,
    removals: PartialRemovals,
    /// Whether a removal was submitted since the last record.
    removed_since_record: bool,
    in_flight: Option<(Ticket, InFlight)>,
    /// The state for the operation that was returned last and is not submitted yet.
    prepared: InFlight,
}

#[derive(Debug)]
struct UnrecordedWrites {
    key: FileNumber,
    name: Name,
    extents: ExtentSet,
    /// Hashes of written blocks.
    hashes: Vec<(Extent, BlockHash)>,
}

#[derive(Debug)]
enum InFlight {
    /// A write to the journal, after the files of these names were synced. `awaited`: new
    /// files wait for it. `is_new`: it creates the journal.
    Record {
        names: Vec<Name>,
        awaited: bool,
        is_new: bool,
        /// The write and its offset, for a retry in case that syncing a file fails.
        retry: Option<(u64, Vec<u8>)>,
    },
    /// Removal of the journal.
    JournalRemoval,
    PartialsRemoval,
}

impl ResumeLog {
    /// Creates a log for a transfer without an earlier journal.
    pub fn new(
        mut transfer: TransferId,
        path: FilePath,
        sync: SyncMode,
        times_unreliable: TimesUnreliable,
    ) -> Self {
        let TimesUnreliable(times_unreliable) = times_unreliable;
        let series = if times_unreliable { transfer.0[SERIES].to_vec() } else { Vec::new() };
        if sync != SyncMode::None {
            transfer.0[..EPOCH_BYTES].copy_from_slice(&PERMANENT);
        }
        Self {
            transfer,
            series,
            sync,
            path,
            failure: None,
            journal: Some(Journal::new(transfer)),
            rewrite: None,
            offset: 0,
            on_disk: false,
            has_previous: false,
            abandoned_shards: Vec::new(),
            unrecorded: BTreeMap::new(),
            bytes: 0,
            record_due: false,
            journal_needed: false,
            journal_failed: false,
            invalidated: HashSet::new(),
            final_record: false,
            removals: PartialRemovals::default(),
            removed_since_record: false,
            in_flight: None,
            prepared: InFlight::PartialsRemoval,
        }
    }

    /// Removes also the partial files that these shards may have left.
    pub fn with_abandoned_shards(mut self, shards: &[AbandonedShard]) -> Self {
        self.abandoned_shards = shards.iter().filter_map(|shard| shard.transfer).collect();
        self
    }

    /// Returns the path of the partial file of a name.
    pub fn partial(&self, name: &Name) -> FilePath {
        partial_of(self.transfer, name)
    }

    /// Loads the journal of an earlier transfer.
    pub fn load(&mut self, bytes: &[u8]) {
        self.on_disk = true;
        let id = bytes.get(ID_RANGE).and_then(|id| id.first_chunk::<16>()).copied().map(TransferId);
        let mut reader = JournalReader::new(id.unwrap_or(self.transfer));
        let read = reader.push(bytes).and_then(|()| reader.finish()).ok();
        // Partial files of that transfer are reused whether or not the records are valid.
        if let (Some(id), Some(_)) = (id, &read) {
            self.transfer.0[EPOCH_BYTES..].copy_from_slice(&id.0[EPOCH_BYTES..]);
            self.has_previous = true;
        }
        let holds = |id: TransferId| {
            id.0[..EPOCH_BYTES] == PERMANENT || id.0[..EPOCH_BYTES] == self.transfer.0[..EPOCH_BYTES]
        };
        // A truncated journal may lack invalidations.
        let held = read.filter(|_| id.is_some_and(holds) && bytes.len() < MAX_JOURNAL);
        let (mut journal, valid) = held.unwrap_or_else(|| (Journal::new(self.transfer), 0));
        if valid > 0 && id == Some(self.transfer) {
            // Appended, because overwritten records could reappear after a system crash.
            self.offset = valid;
        } else {
            journal.continue_as(self.transfer);
            self.rewrite = Some(journal.compact());
            self.record_due = true;
        }
        self.journal = Some(journal);
    }

    /// Continues without a journal: interrupted files cannot be resumed.
    pub fn disable(&mut self) {
        self.journal = None;
    }

    /// Takes the reason why the journal could not be written.
    pub fn take_failure(&mut self) -> Option<Fault> {
        self.failure.take()
    }

    /// Returns whether there is, or will be, a journal.
    pub fn is_enabled(&self) -> bool {
        self.journal.is_some()
    }

    /// Returns the number under which a file is recorded, if it is large enough.
    pub fn key(&self, name: &Name, inode: &Inode, content: &Content) -> Option<FileNumber> {
        let min = if self.has_previous { MIN_RESUMABLE_AGAIN } else { MIN_RESUMABLE };
        if content.size() < min || self.journal.is_none() {
            return None;
        }
        let bytes =
            |time: Time| [&time.seconds().to_be_bytes()[..], &time.nanoseconds().to_be_bytes()[..]].concat();
        let (size, mtime) = (content.size().to_be_bytes(), bytes(inode.mtime));
        let changed = content.ctime().map(bytes).unwrap_or_default();
        let facts = [&size[..], &mtime, &self.series, name.as_bytes(), b"\0", &changed];
        FileNumber::new(key_range(name).start | hash(&facts.concat())).ok()
    }

    /// Returns the data of a file that is not durable.
    pub fn missing(&self, key: FileNumber, content: &Content) -> Option<ExtentSet> {
        self.journal.as_ref().map(|journal| journal.missing(key, content))
    }

    /// Returns the recorded hashes of blocks of a file.
    pub fn hashes(&self, key: FileNumber) -> impl Iterator<Item = (Extent, BlockHash)> + '_ {
        self.journal.iter().flat_map(move |journal| journal.hashes(key))
    }

    /// Records that a range of a file was written, with its hash if it is a block.
    pub fn record_write(
        &mut self,
        key: FileNumber,
        name: &Name,
        at: &FilePath,
        (extent, hash): (Extent, Option<BlockHash>),
    ) {
        if self.journal.is_none() {
            return;
        }
        self.bytes += extent.length();
        let new = || {
            let (extents, hashes) = Default::default();
            UnrecordedWrites { key, name: name.clone(), extents, hashes }
        };
        let writes = self.unrecorded.entry(at.clone()).or_insert_with(new);
        writes.extents.insert(extent);
        writes.hashes.extend(hash.map(|hash| (extent, hash)));
    }

    /// Invalidates all recorded versions of a file except `but`, before it is written.
    pub fn invalidate_versions(&mut self, name: &Name, but: Option<FileNumber>) {
        self.record_due |=
            self.invalidate_all(name, but) || self.invalidated.contains(&key_range(name).start);
    }

    /// Returns whether new partial files may be started.
    pub fn may_start_files(&self) -> bool {
        let awaited = matches!(
            self.in_flight,
            Some((_, InFlight::JournalRemoval | InFlight::Record { awaited: true, .. }))
        );
        let pending = self.journal.is_some() && (self.record_due || self.journal_needed);
        !(self.journal_failed || awaited || pending)
    }

    /// Requires the journal to exist before files are started: a later run derives the names of
    /// their partial files from the identity in the journal.
    pub fn require_journal(&mut self) {
        self.journal_needed |= !self.on_disk;
    }

    /// Drops all records of a file that has its final name.
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

    /// Schedules the removal of a partial file.
    pub fn discard_partial(&mut self, name: &Name, at: FilePath) {
        self.file_completed(name, &at);
        self.removals.push(at);
    }

    /// Schedules the removal of a possible leftover partial file of a name that is not written now.
    /// An earlier run may have started it when the object had another kind or hard links another
    /// order.
    pub fn discard_leftover(&mut self, name: &Name) {
        if self.has_previous {
            let at = self.partial(name);
            // A recorded partial file certainly exists.
            match self.invalidate_all(name, None) {
                true => self.removals.push(at),
                false => self.removals.push_possible(at),
            }
        }
    }

    /// Schedules the removal of possible partial files of a name that abandoned shards have left,
    /// except the one that is resumed.
    pub fn discard_of_abandoned_shards(&mut self, name: &Name) {
        let resumed = self.partial(name);
        let others = self.abandoned_shards.iter().map(|id| partial_of(*id, name));
        others.filter(|at| *at != resumed).for_each(|at| self.removals.push_possible(at));
    }

    /// Schedules the removal of a file that may not exist.
    pub fn remove_possible(&mut self, at: FilePath) {
        self.removals.push_possible(at);
    }

    /// Returns whether more entries may be decided; true again once some removals are submitted.
    pub fn has_capacity(&self) -> bool {
        self.removals.has_capacity()
    }

    /// Returns whether partial files will be removed.
    pub fn is_removing(&self) -> bool {
        self.is_busy() || !self.removals.is_empty()
    }

    /// Returns whether an operation is in flight.
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns whether nothing is left to do.
    pub fn is_finished(&self) -> bool {
        let record_due = self.journal.is_some() && self.record_due;
        !self.is_busy() && self.removals.is_empty() && !record_due && !self.journal_failed
    }

    /// Returns the next operation that is due.
    pub fn next<B>(&mut self) -> Option<Operation<B>> {
        let step = if self.sync == SyncMode::None { RECORD_INTERVAL } else { RECORD_INTERVAL_SYNCED };
        self.next_operation(step)
    }

    /// Returns the next operation before the transfer is aborted.
    pub fn next_final<B>(&mut self) -> Option<Operation<B>> {
        self.removals.clear_possible();
        self.next_operation(1)
    }

    fn next_operation<B>(&mut self, step: u64) -> Option<Operation<B>> {
        if self.is_busy() {
            return None;
        }
        if std::mem::take(&mut self.journal_failed) {
            self.prepared = InFlight::JournalRemoval;
            return Some(Operation::Remove(vec![self.path.clone()]));
        }
        // Entries wait for at most one record, and a record for at most one removal.
        let due = self.bytes >= step && (self.has_capacity() || self.removed_since_record);
        if self.journal.is_some() && (self.record_due || self.journal_needed || due) {
            return self.record();
        }
        self.prepared = InFlight::PartialsRemoval;
        let some = self.removals.take_next();
        self.removed_since_record = !some.is_empty();
        self.removed_since_record.then_some(Operation::Remove(some))
    }

    fn record<B>(&mut self) -> Option<Operation<B>> {
        let journal = self.journal.as_mut()?;
        let synced = self.sync != SyncMode::None;
        let (mut after, mut names) = (Vec::new(), Vec::new());
        for (at, UnrecordedWrites { key, name, extents, hashes }) in std::mem::take(&mut self.unrecorded) {
            hashes.into_iter().for_each(|(block, hash)| journal.record_hash(key, block, hash));
            extents.iter().for_each(|extent| journal.mark_durable(key, extent));
            if synced {
                after.push([at, FilePath::new(0, name.as_bytes())]);
                names.push(name);
            }
        }
        (self.bytes, self.removed_since_record) = (0, false);
        // Compaction without sync: a system crash in the middle could restore invalidated records.
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
        Some(Operation::WriteJournal(JournalWrite { journal: self.path.clone(), offset, bytes, after, sync }))
    }

    /// Marks the operation returned by [`ResumeLog::next`] or [`ResumeLog::next_final`] as
    /// submitted.
    pub fn submitted(&mut self, ticket: Ticket) {
        self.in_flight = Some((ticket, std::mem::replace(&mut self.prepared, InFlight::PartialsRemoval)));
    }

    /// Handles a finished operation; if it was one of these, returns the files that failed to sync.
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

    /// Retries a record that was not written because these files failed to sync, without the files.
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

    /// Handles a failed journal write (disk full, or locked by another transfer): nothing can be
    /// resumed later, and the transfer continues.
    fn journal_write_failed(&mut self, fault: &Fault, is_new: bool) {
        self.journal = None;
        self.failure = Some(fault.clone());
        self.unrecorded.clear();
        // A journal that could not be created must not be removed: it may belong to another
        // transfer.
        let was_never_created = is_new
            && matches!(
                fault.why,
                FaultKind::Exists | FaultKind::ReadOnly | FaultKind::Permission | FaultKind::Unsupported
            );
        (self.journal_failed, self.on_disk) = (!was_never_created, false);
    }

    /// Closes the journal at the end. It is kept only if it records partial files of another
    /// transfer to the same destination: then the first call requests a final record.
    pub fn close(&mut self, partials_removed: bool) -> CloseAction {
        let is_useful = self.journal.as_ref().is_some_and(|journal| !journal.is_empty()) && !partials_removed;
        if is_useful && !std::mem::replace(&mut self.final_record, true) {
            self.record_due = true;
            return CloseAction::Write;
        }
        self.journal = None;
        match std::mem::take(&mut self.on_disk) && !is_useful {
            true => CloseAction::Remove(self.path.clone()),
            false => CloseAction::Keep,
        }
    }
}

/// How to treat the journal at the end.
#[derive(Debug)]
pub(super) enum CloseAction {
    /// Write the final record first.
    Write,
    Keep,
    Remove(FilePath),
}

fn partial_of(mut transfer: TransferId, name: &Name) -> FilePath {
    transfer.0[..EPOCH_BYTES].copy_from_slice(&PERMANENT);
    FilePath::new(0, partial_name(transfer, name))
}

/// Returns the range of numbers of all versions of a name.
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
    use super::super::partial_removals::{BATCH, MAX_WAITING};
    use super::*;

    const ID_RANGE: TransferId = TransferId([7; 16]);

    fn journal() -> FilePath {
        FilePath::new(0, *b".numaio-journal")
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes().to_vec()).expect("a name")
    }

    fn key(name: &Name) -> FileNumber {
        FileNumber::new(key_range(name).start | 1).expect("a number")
    }

    /// Submits and returns the next operation.
    fn submit_next(log: &mut ResumeLog, ticket: Ticket) -> Option<Operation<()>> {
        let operation = log.next::<()>()?;
        log.submitted(ticket);
        Some(operation)
    }

    /// Returns a log with a created journal and written but unrecorded data of a file.
    fn with_recorded_part(file: &str, sync: SyncMode) -> ResumeLog {
        let mut log = ResumeLog::new(ID_RANGE, journal(), sync, TimesUnreliable(false));
        let (name, at) = (name(file), FilePath::new(0, file.as_bytes()));
        log.require_journal();
        assert!(!log.may_start_files() && submit_next(&mut log, 1).is_some());
        assert!(!log.may_start_files(), "the journal does not exist yet");
        assert!(log.completed(1, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && log.may_start_files());
        log.record_write(key(&name), &name, &at, (Extent::between(0, RECORD_INTERVAL).expect("bytes"), None));
        log
    }

    impl ResumeLog {
        /// Returns whether a recorded file is not completely durable.
        fn key_is_left(&self, file: &str) -> bool {
            let content = Content::dense(RECORD_INTERVAL).expect("a size");
            self.missing(key(&name(file)), &content).is_none_or(|left| !left.is_empty())
        }
    }

    #[test]
    fn invalidation_is_on_disk_before_files_start() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        assert!(log.may_start_files(), "files do not wait for a record of durable data");
        log.invalidate_versions(&name("b"), None);
        assert!(log.may_start_files(), "nothing was recorded of it");
        log.invalidate_versions(&name("a"), Some(key(&name("a"))));
        assert!(log.may_start_files(), "no other versions were recorded");
        log.invalidate_versions(&name("a"), None);
        log.completed(2, &[Ok(())]);
        assert!(!log.may_start_files(), "the record in flight did not contain the invalidation");
        let Some(Operation::WriteJournal(record)) = submit_next(&mut log, 3) else {
            panic!("expected a record")
        };
        assert!(record.sync && !log.may_start_files());
        log.completed(3, &[Ok(())]);
        assert!(log.may_start_files());
    }

    #[test]
    fn failed_file_restarts_only_after_its_invalidation() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        log.completed(2, &[Ok(())]);
        log.discard_partial(&name("a"), FilePath::new(0, *b"a"));
        assert!(log.may_start_files());
        log.invalidate_versions(&name("a"), None);
        assert!(!log.may_start_files());
    }

    #[test]
    fn appends_to_a_permanent_journal_and_replaces_others() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let Some(Operation::WriteJournal(first)) = log.next_final::<()>() else {
            panic!("expected a record")
        };
        let mut before = Journal::new(TransferId([&PERMANENT[..], &[7; 8]].concat().try_into().expect("16")));
        before.mark_durable(key(&name("a")), Extent::between(0, RECORD_INTERVAL).expect("bytes"));
        let bytes = before.take_pending();
        assert_eq!((first.offset, first.offset + first.bytes.len() as u64), (30, bytes.len() as u64));
        let mut retry =
            ResumeLog::new(TransferId([9; 16]), journal(), SyncMode::File, TimesUnreliable(false));
        retry.load(&bytes);
        assert!(retry.may_start_files() && !retry.key_is_left("a"));
        retry.invalidate_versions(&name("a"), None);
        let Some(Operation::WriteJournal(record)) = submit_next(&mut retry, 1) else {
            panic!("expected a record")
        };
        assert_eq!(record.offset, bytes.len() as u64);
        let mut plain =
            ResumeLog::new(TransferId([9; 16]), journal(), SyncMode::None, TimesUnreliable(false));
        plain.load(&bytes);
        assert!(!plain.may_start_files() && !plain.key_is_left("a"));
        let Some(Operation::WriteJournal(record)) = submit_next(&mut plain, 1) else {
            panic!("expected a record")
        };
        assert!(record.offset == 0 && record.sync);
    }

    #[test]
    fn removes_an_unwritable_journal_before_files_start() {
        let mut log = with_recorded_part("a", SyncMode::None);
        assert!(submit_next(&mut log, 2).is_some());
        let full = Fault::new(FaultKind::NoSpace, "full");
        assert_eq!(log.completed(2, &[Err(full)]), Some(Vec::new()));
        assert!(!log.may_start_files() && !log.is_finished());
        let Some(Operation::Remove(names)) = submit_next(&mut log, 3) else { panic!("expected a removal") };
        assert_eq!(names, [journal()]);
        assert!(!log.may_start_files());
        log.completed(3, &[Ok(())]);
        assert!(log.may_start_files() && log.is_finished() && matches!(log.close(false), CloseAction::Keep));
    }

    #[test]
    fn reports_files_that_fail_to_sync() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let rest = Extent::between(RECORD_INTERVAL, RECORD_INTERVAL_SYNCED).expect("bytes");
        log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), (rest, None));
        let Some(Operation::WriteJournal(record)) = submit_next(&mut log, 2) else {
            panic!("expected a record")
        };
        assert_eq!(record.after.len(), 1);
        let broken = Fault::new(FaultKind::Other, "broken");
        let failed = log.completed(2, &[Err(broken.clone()), Err(broken.clone())]);
        assert_eq!(failed, Some(vec![(name("a"), broken)]));
    }

    #[test]
    fn sync_failure_of_one_file_does_not_affect_others() {
        let mut log = with_recorded_part("a", SyncMode::File);
        let header = Journal::new(log.transfer).take_pending();
        let all = Extent::between(0, RECORD_INTERVAL_SYNCED).expect("bytes");
        log.record_write(key(&name("b")), &name("b"), &FilePath::new(0, *b"b"), (all, None));
        let Some(Operation::WriteJournal(record)) = submit_next(&mut log, 2) else {
            panic!("expected a record")
        };
        let offset = record.offset;
        assert_eq!(record.after.len(), 2);
        let broken = Err(Fault::new(FaultKind::Permission, "permission denied"));
        assert!(log.completed(2, &[broken.clone(), Ok(()), broken]).is_some_and(|failed| failed.len() == 1));
        let Some(Operation::WriteJournal(record)) = submit_next(&mut log, 3) else {
            panic!("expected a retry")
        };
        assert!(record.offset == offset && record.sync && record.after.is_empty());
        assert!(log.completed(3, &[Ok(())]).is_some_and(|failed| failed.is_empty()) && log.may_start_files());
        let mut retry = ResumeLog::new(ID_RANGE, journal(), SyncMode::File, TimesUnreliable(false));
        retry.load(&[header, record.bytes].concat());
        assert!(retry.key_is_left("a") && !retry.key_is_left("b"));
    }

    #[test]
    fn compacts_a_long_journal() {
        let mut log = with_recorded_part("a", SyncMode::None);
        let (mut longest, mut offset) = (0, 0);
        for step in 0..2_000 {
            let next = Extent::at(step * RECORD_INTERVAL, RECORD_INTERVAL).expect("bytes");
            log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), (next, None));
            let Some(Operation::WriteJournal(record)) = submit_next(&mut log, 2) else {
                panic!("expected a record")
            };
            log.completed(2, &[Ok(())]);
            longest = longest.max(offset);
            offset = record.offset + record.bytes.len() as u64;
        }
        assert!(longest < 40_000 && offset < longest, "{longest} {offset}");
    }

    /// Returns a log that has loaded the journal of an interrupted run with a record of this file.
    fn after_interruption(file: &str) -> ResumeLog {
        let mut before = Journal::new(ID_RANGE);
        before.mark_durable(key(&name(file)), Extent::between(0, RECORD_INTERVAL).expect("bytes"));
        let mut log = ResumeLog::new(ID_RANGE, journal(), SyncMode::None, TimesUnreliable(false));
        log.load(&before.take_pending());
        log
    }

    #[test]
    fn removes_possible_leftovers_in_batches_and_limits_their_number() {
        let mut log = after_interruption("a");
        (1..MAX_WAITING).for_each(|number| log.discard_leftover(&name(&number.to_string())));
        assert!(log.has_capacity());
        log.discard_leftover(&name("last"));
        assert!(!log.has_capacity());
        // A record without urgency comes later, but is not forgotten.
        log.record_write(
            key(&name("a")),
            &name("a"),
            &FilePath::new(0, *b"a"),
            (Extent::at(0, RECORD_INTERVAL).expect("bytes"), None),
        );
        let (mut removed, mut records) = (Vec::new(), 0);
        while let Some(operation) = submit_next(&mut log, 1) {
            match operation {
                Operation::Remove(some) => {
                    assert!(some.len() <= BATCH && records == usize::from(!removed.is_empty()));
                    removed.extend(some);
                }
                _ => records += 1,
            }
            assert!(log.has_capacity() && log.next::<()>().is_none(), "one at a time");
            log.completed(1, &[Ok(())]);
        }
        assert!(log.is_finished() && removed.len() == MAX_WAITING && records == 1);
        assert_eq!(removed.last(), Some(&log.partial(&name("last"))));
    }

    /// Possible leftovers are added without end.
    #[test]
    fn record_waits_for_at_most_one_removal() {
        let mut log = after_interruption("a");
        let mut names = (0..).map(|number: u32| name(&number.to_string()));
        let part = Extent::at(0, RECORD_INTERVAL).expect("bytes");
        log.record_write(key(&name("a")), &name("a"), &FilePath::new(0, *b"a"), (part, None));
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
    fn abort_removes_known_partial_files_and_leaves_possible_ones() {
        let mut log = after_interruption("a");
        let other = FilePath::new(0, *b"other");
        (0..3_000).for_each(|number| log.discard_leftover(&name(&number.to_string())));
        log.discard_leftover(&name("a"));
        log.discard_partial(&name("other"), other.clone());
        let Some(Operation::Remove(removed)) = log.next_final::<()>() else { panic!("expected a removal") };
        assert_eq!(removed, [log.partial(&name("a")), other]);
        log.submitted(1);
        log.completed(1, &[Ok(())]);
        assert!(log.next_final::<()>().is_none() && log.is_finished());
    }
}
