//! The sink: decides which data it needs, verifies received data, and gives complete files their
//! names.

mod case_folding;
mod compare;
mod decide;
mod early_frames;
mod finalize;
mod hashes;
mod new_directories;
mod options;
mod pending_ops;
mod receive;
mod requested;
mod resume_log;

use crate::accounts::{Account, Accounts};
use crate::acl;
use crate::drive::{PeerState, PortCommand, TransferCore};
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Object};
use crate::extent::ExtentSet;
use crate::name::Name;
pub use crate::own_files::JOURNAL;
use crate::port::{
    Attributes, Details, Event, Fault, FaultKind, FileInfo, FilePath, OpenedJournal as Opened, Operation,
    Outcome, Stamp, Ticket, BLOCK,
};
use crate::report::{reason, ChangeKind, Report, Totals, TransferOutcome};
use crate::wire::{
    EndTotals, Frame, Problem, ProblemSubject, Reason, Side, SinkChange, TransferId, WireError,
};
use early_frames::EarlyFrames;
use finalize::Finalization;
use hashes::FileHashes;
use new_directories::NewDirectories;
pub use options::{PreserveOptions, ProtectedPaths, SinkOptions, SyncMode, WriterIdentity};
use pending_ops::PendingOps;
pub use requested::RequestedEntries;
pub use resume_log::SERIES;
use resume_log::{ResumeLog, TimesUnreliable};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

/// Maximum entries that are undecided or incomplete; a source stays below.
const MAX_OPEN_ENTRIES: usize = 4 * crate::source::WINDOW as usize;
/// Interval for retrying to open a journal that an earlier attempt of the same command still
/// holds...
const JOURNAL_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// ...and the time after which the sink continues without one: a dead peer may be noticed late.
const JOURNAL_RETRY_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum bytes of change frames that are buffered to be sent together.
const MAX_BUFFERED_CHANGES: usize = 64 << 10;

/// A file whose data is being received.
#[derive(Debug)]
struct Incoming {
    name: Name,
    content: Content,
    /// The file that is written to.
    at: FilePath,
    /// Whether that is the file with the final name.
    in_place: bool,
    /// Attributes to set.
    attributes: Attributes,
    /// The number in the journal, if the file is recorded there.
    key: Option<FileNumber>,
    /// Whether its data was requested from the source.
    answered: bool,
    /// Ranges not received yet.
    left: ExtentSet,
    /// Bytes received or declared as holes.
    bytes: u64,
    /// Bytes declared as holes.
    holes: u64,
    /// Number of write operations in flight.
    writing: usize,
    /// Number of bytes that the source announced as sent.
    done: Option<u64>,
    /// The size and mtime that distinguish the new file from the old one; `None` if both were
    /// equal.
    expected: Option<(u64, Option<Stamp>)>,
}

/// Entries of a received batch, in order.
#[derive(Debug)]
struct IncomingBatch {
    first: FileNumber,
    entries: Vec<Entry>,
    /// Marks names that are case-insensitive duplicates of earlier ones at the destination.
    duplicates: Vec<bool>,
    /// Marks new objects in newly created directories, which need no lookup.
    fresh: Vec<bool>,
    /// The existing objects with these names; `None` until the lookup is complete.
    found: Option<Vec<Result<Option<FileInfo>, Fault>>>,
    /// The lookup operation. It waits for the journal, whose holder may still be completing files.
    lookup: Option<Ticket>,
}

/// The state of opening the journal, which precedes all other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JournalState {
    Opening(Ticket),
    /// An earlier attempt holds the journal; the time of the next try, once known.
    Waiting(Option<Duration>),
    Ready,
}

/// The sink of a transfer: the side that creates files.
///
/// Like the source, it is a state machine without I/O: [`TransferCore::handle`] takes completed
/// operations and received packets, [`TransferCore::poll`] returns the next operation or packet. A
/// transfer passes through these stages:
///
/// 1. *Journal.* The sink opens the journal of the destination and loads which partial files an
///    interrupted transfer left (`resume_log`).
/// 2. *Batches.* It checks that the entries of each batch were requested (`requested`), looks up
///    the existing objects, and decides each entry in order (`decide`, `compare`): unchanged,
///    attributes only, create, or transfer. Directories are created first, since later entries are
///    inside them.
/// 3. *Requests.* Per batch, it requests the data that it needs: nothing, everything, or the
///    ranges that the journal does not list as durable. With `checksum` it first requests hashes
///    (`hashes`). In eager mode the source sends data at once, and frames that arrive before their
///    entry is decided are deferred (`early_frames`).
/// 4. *Data.* It writes chunks to a partial file beside the final name and records durable ranges
///    in the journal; a complete file gets its attributes and is renamed (`receive`).
/// 5. *Finalization.* After the source's end frame: hard links, removal of extra entries, directory
///    attributes, and sync (`finalize`). Then it sends its own end frame.
///
/// Invariants: a name always refers to a complete old or complete new file (except with
/// `in_place`); journal records on disk are true at every moment; and a failure of one file does
/// not affect others. Memory is bounded by a window of entries ([`crate::source::WINDOW`]) plus a
/// few bytes per entry for hard links, directories and removal.
#[derive(Debug)]
pub struct Sink<B> {
    options: SinkOptions,
    peer: PeerState<B>,
    journal_state: JournalState,
    /// When to stop retrying to open a journal that another process holds.
    journal_deadline: Option<Duration>,
    /// The number that the next received entry must have.
    next: u64,
    batches: VecDeque<IncomingBatch>,
    new_directories: NewDirectories,
    /// Bytes of files that were already up to date.
    unchanged_bytes: u64,
    /// Objects that block entries of the first batch are being removed.
    removing_blockers: bool,
    /// Directories of the first batch are being created.
    creating_directories: Option<Ticket>,
    preparing: BTreeMap<Ticket, decide::Prepared>,
    incoming: HashMap<u64, Incoming>,
    /// Names of incoming files, none of which may be received twice at a time.
    active_names: HashSet<Name>,
    early_frames: EarlyFrames<B>,
    writes: BTreeMap<Ticket, Vec<receive::PendingWrite>>,
    pending_ops: PendingOps,
    hashes: FileHashes,
    accounts: Accounts,
    resume_log: ResumeLog,
    finalize: Finalization,
    /// Encoded change frames that are not sent yet.
    unsent_changes: Vec<u8>,
    /// The end frame of the source.
    source_end: Option<EndTotals>,
    /// Whether the transfer was aborted; it ends when no operation is in flight.
    stopping: bool,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Creates a sink that has not received anything yet.
    pub fn new(options: SinkOptions) -> Self {
        let mut peer = PeerState::new(Side::Sink, options.transfer);
        let distrusts = TimesUnreliable(options.checksum || options.ignore_times);
        // A dry run leaves the journal to the run that resumes from it.
        let journal_state = match options.dry_run {
            true => JournalState::Ready,
            false => JournalState::Opening(peer.submit(open())),
        };
        Self {
            peer,
            journal_state,
            journal_deadline: None,
            next: 0,
            batches: VecDeque::new(),
            new_directories: NewDirectories::default(),
            creating_directories: None,
            preparing: BTreeMap::new(),
            incoming: HashMap::new(),
            active_names: HashSet::new(),
            early_frames: EarlyFrames::default(),
            writes: BTreeMap::new(),
            unchanged_bytes: 0,
            removing_blockers: false,
            pending_ops: PendingOps::default(),
            hashes: FileHashes::default(),
            accounts: Accounts::new(options.accounts),
            resume_log: ResumeLog::new(options.transfer, options.sync, distrusts),
            finalize: Finalization::new(options.names),
            unsent_changes: Vec::new(),
            source_end: None,
            stopping: false,
            options,
        }
    }

    fn received(&mut self, frames: &[u8], data: Option<(B, usize)>) -> Result<(), WireError> {
        let (mut rest, mut last) = (frames, None);
        while let Some(frame) = self.peer.next_frame(&mut rest)? {
            last.replace(frame).map_or(Ok(()), |before| self.frame(before, None))?;
        }
        self.peer.end_packet(data.as_ref().map(|(_, length)| *length))?;
        last.map_or(Ok(()), |frame| self.frame(frame, data.map(|(buffer, _)| buffer)))
    }

    fn frame(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        if self.source_end.is_some() || self.is_end_deferred() {
            return Err(WireError::AfterEnd);
        }
        match self.options.eager {
            true => self.apply_or_defer(frame, data),
            false => self.apply(frame, data),
        }
    }

    fn apply(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        match frame {
            Frame::Batch(batch) => {
                let (first, entries) = batch.into_parts();
                self.receive_batch(first, entries)
            }
            Frame::Chunk(chunk) => match data {
                Some(data) => self.receive_chunk(&chunk, data),
                None => Err(WireError::InvalidValue("a chunk without data")),
            },
            Frame::Holes(holes) => self.receive_holes(&holes),
            Frame::FileSent(done) => self.receive_file_sent(done),
            Frame::FileHash(sum) => self.receive_hash(sum),
            Frame::Problem(problem) => {
                self.peer_problem(problem);
                Ok(())
            }
            Frame::End(end) => {
                if !self.has_answered_all() || !self.has_all_data() {
                    return Err(WireError::InvalidValue("an end before all data"));
                }
                self.source_end = Some(end);
                Ok(())
            }
            Frame::DataRequests(_) | Frame::ManifestEntry(_) | Frame::Change(_) => {
                Err(WireError::InvalidValue("a frame that a source does not send"))
            }
        }
    }

    fn receive_batch(&mut self, first: FileNumber, entries: Vec<Entry>) -> Result<(), WireError> {
        let waiting: usize = self.batches.iter().map(|batch| batch.entries.len()).sum();
        if first.get() != self.next {
            return Err(WireError::InvalidValue("the number of a batch's first entry"));
        }
        if waiting + self.incoming.len() > MAX_OPEN_ENTRIES {
            return Err(WireError::InvalidValue("too many unanswered entries"));
        }
        self.check_requested(&entries)?;
        self.next += entries.len() as u64;
        self.peer.totals.entries += entries.len() as u64;
        let mut entries = entries;
        if let Some(alias) = &self.options.alias {
            // The root is the parent of the named destination: the source may touch nothing else in
            // it.
            if self.next > 1 || !entries.iter().all(is_one_file) {
                return Err(WireError::InvalidValue("more entries than the announced single file"));
            }
            entries.iter_mut().for_each(|entry| entry.name = alias.clone());
        }
        for entry in &mut entries {
            if let Object::New(inode) = &mut entry.object {
                self.accounts.map_owner(Account::User, &mut inode.user);
                self.accounts.map_owner(Account::Group, &mut inode.group);
                match self.options.acls {
                    true => acl::decode_names(&mut inode.xattrs, &mut self.accounts)?,
                    false => acl::reject_wire_only(&inode.xattrs)?,
                }
            }
        }
        let duplicates =
            entries.iter().map(|entry| self.finalize.case_folding.is_duplicate(&entry.name)).collect();
        let new = || entries.iter().filter(|entry| matches!(entry.object, Object::New(_)));
        let fresh: Vec<bool> =
            new().map(|entry| self.new_directories.contains_parent_of(&entry.name)).collect();
        self.batches.push_back(IncomingBatch {
            first,
            entries,
            duplicates,
            fresh,
            found: None,
            lookup: None,
        });
        Ok(())
    }

    /// Looks up the existing objects of batches without a lookup.
    fn submit_lookups(&mut self) {
        let details = Details { xattrs: self.options.preserve.xattrs, ..Details::default() };
        // A peer on another machine must not learn where links lead here.
        let follows = !self.options.protected.sources.is_empty();
        for batch in self.batches.iter_mut().filter(|batch| batch.lookup.is_none()) {
            let new = batch.entries.iter().filter_map(|entry| match &entry.object {
                Object::New(inode) => Some((&entry.name, &inode.kind)),
                Object::HardLink(_) => None,
            });
            let (mut at, mut links) = (Vec::new(), Vec::new());
            for ((name, kind), _) in new.zip(&batch.fresh).filter(|(_, fresh)| !**fresh) {
                match kind {
                    Kind::Symlink(target) if follows => links.push((at.len(), target.as_bytes().into())),
                    _ => {}
                }
                at.push(FilePath::new(0, name.as_bytes()));
            }
            batch.lookup = Some(self.peer.submit(Operation::Stat { at, details, links }));
        }
    }

    /// Rejects entries that were not requested, by their names at the source.
    fn check_requested(&mut self, entries: &[Entry]) -> Result<(), WireError> {
        let Some(requested) = &mut self.options.requested else { return Ok(()) };
        match entries.iter().find(|entry| !requested.accepts(entry, &self.options.filter)) {
            Some(entry) => Err(WireError::NotRequested(entry.name.clone())),
            None => Ok(()),
        }
    }

    fn peer_problem(&mut self, problem: Problem) {
        match &problem.about {
            ProblemSubject::Transfer => {
                self.stopping = true;
            }
            ProblemSubject::File(number, _) => {
                self.hashes.fail(*number);
                self.drop_file(*number);
            }
            ProblemSubject::Name(_) => self.finalize.incomplete = true,
        }
        self.peer.record_problem(problem);
    }

    /// Handles a failed file: reports it to the source, and continues with the others.
    fn fail(&mut self, number: FileNumber, name: &Name, fault: &Fault) {
        self.peer.report_problem(ProblemSubject::File(number, name.clone()), reason(fault.why), &fault.text);
        if !self.drop_file(number) {
            self.finalize.record_failure(name, None);
        }
    }

    /// Removes a file that is complete or failed from the incoming files, which frees its name.
    fn remove_incoming(&mut self, number: u64) -> Option<Incoming> {
        self.incoming.remove(&number).inspect(|file| _ = self.active_names.remove(&file.name))
    }

    /// Discards the received data of a file; returns `false` if none was being received.
    fn drop_file(&mut self, number: FileNumber) -> bool {
        let Some(file) = self.remove_incoming(number.get()) else { return false };
        self.finalize.record_failure(&file.name, file.expected);
        // Operations in flight may still write to the partial file; it is removed after them.
        if !file.in_place {
            self.resume_log.discard_partial(&file.name, file.at);
        }
        true
    }

    /// Records a change, or in a dry run a change that would have been made.
    fn record_change(&mut self, name: Name, action: ChangeKind, bytes: u64) {
        match action {
            ChangeKind::Removed => self.peer.totals.removed += 1,
            _ => self.peer.totals.moved += 1,
        }
        let change = SinkChange { name, action, bytes };
        if self.options.report_changes {
            Frame::Change(change.clone()).encode(&mut self.unsent_changes);
            if self.unsent_changes.len() > MAX_BUFFERED_CHANGES {
                self.flush_changes();
            }
        }
        self.peer.reports.push(Report::Change(change));
    }

    /// Sends the buffered change frames.
    fn flush_changes(&mut self) {
        if !self.unsent_changes.is_empty() {
            let frames = std::mem::take(&mut self.unsent_changes);
            self.peer.send_bytes(frames);
        }
    }

    fn abort(&mut self, reason: Reason, text: &str) {
        if !self.stopping {
            self.peer.report_problem(ProblemSubject::Transfer, reason, text);
            self.stopping = true;
        }
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        if self.journal_state == JournalState::Opening(ticket) {
            self.journal_state = JournalState::Ready;
            return self.opened(outcome);
        }
        match outcome {
            Outcome::Stat(found) => {
                if let Some((_, links)) = self.finalize.link_lookup.take_if(|(lookup, _)| *lookup == ticket) {
                    self.create_links(links, found);
                } else if let Some(batch) = self.batches.iter_mut().find(|batch| batch.lookup == Some(ticket))
                {
                    let mut found = found.into_iter();
                    let fresh = std::mem::take(&mut batch.fresh).into_iter();
                    let all =
                        fresh.map(|fresh| if fresh { Ok(None) } else { found.next().unwrap_or(Ok(None)) });
                    batch.found = Some(all.collect());
                    if self.options.checksum && !self.options.eager {
                        self.request_hashes(ticket);
                    }
                }
            }
            Outcome::Listed(listing) => self.directory_listed(ticket, listing),
            Outcome::Results(results) => self.each(ticket, results),
            Outcome::HashedFile(outcome) => self.hash_completed(ticket, outcome),
            Outcome::Read { .. } | Outcome::OpenedJournal(_) => {}
        }
    }

    fn each(&mut self, ticket: Ticket, results: Vec<Result<(), Fault>>) {
        if self.creating_directories == Some(ticket) {
            self.creating_directories = None;
            return self.directories_created(results);
        }
        if let Some(prepared) = self.preparing.remove(&ticket) {
            return self.files_prepared(prepared, results);
        }
        if let Some(written) = self.writes.remove(&ticket) {
            return written
                .into_iter()
                .zip(results)
                .for_each(|(item, result)| self.write_completed(item, result));
        }
        if let Some(failed) = self.resume_log.completed(ticket, &results) {
            return self.sync_failed(failed);
        }
        for (op, result) in self.pending_ops.completed(ticket, results) {
            self.op_done(op, result);
        }
    }

    /// Handles files whose data could not be synced before it was recorded in the journal.
    fn sync_failed(&mut self, failed: Vec<(Name, Fault)>) {
        for (name, fault) in failed {
            let is_it = |(_, file): &(&u64, &Incoming)| file.name == name;
            let number = self.incoming.iter().find(is_it).map(|(&number, _)| number);
            match number.and_then(|number| FileNumber::new(number).ok()) {
                // The file has its final name and mode already, or it failed and was removed.
                _ if matches!(fault.why, FaultKind::NotFound | FaultKind::Permission) => {}
                Some(number) => self.fail(number, &name, &fault),
                None => self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text),
            }
        }
    }

    fn opened(&mut self, outcome: Outcome<B>) {
        match outcome {
            Outcome::OpenedJournal(Ok(Opened::Content(bytes))) => self.resume_log.load(&bytes),
            Outcome::OpenedJournal(Ok(Opened::Absent)) => {}
            Outcome::OpenedJournal(Ok(Opened::Locked)) => {
                self.keep_all_partials();
                match self.options.is_retry {
                    true => self.journal_state = JournalState::Waiting(None),
                    false => self.resume_log.disable(),
                }
            }
            Outcome::OpenedJournal(Err(fault)) => {
                // The journal of another user, whose transfer may be running.
                if matches!(fault.why, FaultKind::Exists | FaultKind::Permission) {
                    self.keep_all_partials();
                }
                // A missing root and the like are reported when entries cannot be created there.
                self.resume_log.disable();
            }
            _ => self.resume_log.disable(),
        }
    }

    /// Keeps all partial files of other transfers, since one may be running.
    fn keep_all_partials(&mut self) {
        self.options.keep_partials_since = Stamp { seconds: i64::MIN, nanoseconds: 0 };
    }

    /// Retries opening the journal when it is time, or continues without it after the deadline.
    fn retry_journal(&mut self, now: Duration) {
        let JournalState::Waiting(at) = &mut self.journal_state else { return };
        let until = *self.journal_deadline.get_or_insert(now + JOURNAL_RETRY_TIMEOUT);
        if now >= until {
            self.journal_state = JournalState::Ready;
            self.resume_log.disable();
        } else if now >= *at.get_or_insert(now + JOURNAL_RETRY_INTERVAL) {
            self.journal_state = JournalState::Opening(self.peer.submit(open()));
        }
    }

    fn is_idle(&self) -> bool {
        let working = !self.preparing.is_empty() || !self.writes.is_empty() || !self.pending_ops.is_empty();
        let working = working || !self.hashes.is_idle();
        !working && self.creating_directories.is_none() && self.finalize.is_idle()
    }

    /// Returns whether all entries are decided and answered.
    fn has_answered_all(&self) -> bool {
        let waiting = !self.batches.is_empty()
            || !self.finalize.awaiting_journal.is_empty()
            || self.finalize.awaiting_directories.is_some();
        !waiting && self.preparing.is_empty()
    }

    /// Returns whether an entry is known and decided.
    fn is_decided(&self, number: u64) -> bool {
        number < self.batches.front().map_or(self.next, |batch| batch.first.get())
    }

    fn finish_stopping(&mut self) {
        self.hashes.stop();
        self.early_frames.clear();
        let is_opening = matches!(self.journal_state, JournalState::Opening(_));
        if !self.stopping || self.peer.outcome.is_some() || !self.is_idle() || is_opening {
            return;
        }
        // Without a journal, no later run can find the partial files.
        if !self.resume_log.is_enabled() {
            let is_partial = |file: &Incoming| !file.in_place && file.content.size() > BLOCK as u64;
            for (_, file) in self.incoming.drain().filter(|(_, file)| is_partial(file)) {
                self.resume_log.discard_partial(&file.name, file.at);
            }
        }
        if let Some(operation) = self.resume_log.next_final() {
            let ticket = self.peer.submit(operation);
            self.resume_log.submitted(ticket);
        }
        if !self.resume_log.is_busy() {
            self.peer.outcome = Some(TransferOutcome::Failed);
        }
    }

    fn submit_journal(&mut self) {
        if self.journal_state != JournalState::Ready {
            return;
        }
        while let Some(operation) = self.resume_log.next() {
            let ticket = self.peer.submit(operation);
            self.resume_log.submitted(ticket);
        }
    }
}

impl<B: AsRef<[u8]>> TransferCore<B> for Sink<B> {
    fn handle(&mut self, event: Event<B>) {
        match event {
            Event::Done(ticket, outcome) => self.done(ticket, outcome),
            Event::Received(packet) if !self.stopping && self.peer.outcome.is_none() => {
                if let Err(error) = self.received(&packet.frames, packet.data) {
                    self.abort(Reason::Protocol, &error.to_string());
                }
            }
            Event::Received(_) | Event::Sent(_) => {}
            Event::Closed(why) => {
                // After its end frame, the source may close the connection.
                if self.peer.outcome.is_none() && self.source_end.is_none() {
                    self.abort(Reason::Other, &format!("the connection to the source was lost: {why}"));
                }
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>> {
        if self.peer.commands.is_empty() && self.peer.outcome.is_none() {
            self.retry_journal(now);
            if self.stopping {
                self.finish_stopping();
            } else if self.journal_state == JournalState::Ready {
                self.submit_lookups();
                self.process_batches();
                if let Err(error) = self.apply_deferred() {
                    self.abort(Reason::Protocol, &error.to_string());
                }
                self.submit_hash_reads();
                self.submit_journal();
                self.continue_finalization();
            }
            self.flush_changes();
        }
        self.peer.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        match self.journal_state {
            JournalState::Waiting(at) => at,
            _ => None,
        }
    }

    fn stop(&mut self, reason: Reason, text: &str) {
        self.abort(reason, text);
    }

    fn outcome(&self) -> Option<&TransferOutcome> {
        self.peer.outcome.as_ref().filter(|_| self.peer.commands.is_empty())
    }

    fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.peer.reports)
    }

    fn totals(&self) -> Totals {
        self.peer.totals
    }

    fn progress(&self) -> u64 {
        let Totals { bytes, resumed, moved, unchanged, .. } = self.peer.totals;
        [bytes, resumed, moved, unchanged].into_iter().fold(self.unchanged_bytes, u64::saturating_add)
    }
}

fn open<B>() -> Operation<B> {
    Operation::OpenJournal { journal: FilePath::new(0, JOURNAL), most: resume_log::MAX_JOURNAL }
}

/// Converts the mtime to the type of ports.
fn stamp(inode: &Inode) -> Stamp {
    Stamp { seconds: inode.mtime.seconds(), nanoseconds: inode.mtime.nanoseconds() }
}

/// Returns whether an entry can be the only one of a source that is not a directory.
fn is_one_file(entry: &Entry) -> bool {
    let is_file = matches!(&entry.object, Object::New(inode) if inode.kind != Kind::Directory);
    is_file && entry.name.components().count() == 1
}
