//! The side where files go: decides what it needs, checks what comes, and gives files their names when they are whole.

mod receive;
mod requested;
mod case_folding;
mod compare;
mod early_frames;
mod pending_ops;
mod finalize;
mod new_directories;
mod decide;
mod resume_log;
mod hashes;

use crate::accounts::{Account, Accounts, AccountLookup};
use crate::acl;
use crate::drive::{PortCommand, TransferCore, PeerState};
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Object};
use crate::extent::ExtentSet;
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::name::Name;
pub use crate::own_files::JOURNAL;
use crate::report::{reason, ChangeKind, TransferOutcome, Report, Totals};
use crate::wire::{ProblemSubject, SinkChange, EndTotals, Frame, Problem, Reason, Side, TransferId, WireError};
pub use requested::RequestedEntries;
use early_frames::EarlyFrames;
use pending_ops::PendingOps;
use finalize::Finalization;
use new_directories::NewDirectories;
pub use resume_log::SERIES;
use resume_log::{TimesUnreliable, ResumeLog};
use numaio_machine::port::{
    Attributes, Details, Event, Fault, FileKind, FilePath, Found, Journal as Opened, Names, Operation,
    Outcome, Seen, Stamp, Ticket, Why, BLOCK,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;
use hashes::FileHashes;

/// Most entries that are not decided or not complete; a source keeps to less.
const MAX_OPEN_ENTRIES: usize = 4 * crate::source::WINDOW as usize;
/// How often a journal is asked for that another try of the same command has, which ends when all is written that came to it...
const JOURNAL_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// ...and for how long: it may take so long to notice that its connection is gone.
const JOURNAL_RETRY_TIMEOUT: Duration = Duration::from_secs(45);
/// Bytes of frames that wait for more of them to be sent together.
const MAX_BUFFERED_CHANGES: usize = 64 << 10;

/// Which attributes are set as they are at the source. Times always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreserveOptions {
    /// Modes; else what is new has the source's, less what default ACLs or the umask take.
    pub modes: bool,
    /// Users.
    pub users: bool,
    /// Groups.
    pub groups: bool,
    /// Extended attributes, ACLs among them.
    pub xattrs: bool,
}

/// When data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// By the kernel, when it likes. A crash of the machine may damage what was moved shortly before.
    None,
    /// Before a file gets its name, and all at the end.
    File,
    /// All at the end.
    End,
}

/// Who is not root gives files of his own the groups that he is in, and no others; and no extended attributes that are root's.
#[derive(Debug, Clone, Default)]
pub struct WriterIdentity {
    /// The user's number.
    pub user: u32,
    /// Numbers of the groups that he is in.
    pub groups: Vec<u32>,
    /// Whether he writes for others, as a daemon does: then nothing gets set-ID bits, and these count for nothing.
    pub for_others: bool,
}

/// Directories on the machine of the sink that are read, by volume and inode.
#[derive(Debug, Clone, Default)]
pub struct ProtectedPaths {
    /// Those where reading begins.
    pub sources: Vec<(u64, u64)>,
    /// Those in which these lie.
    pub ancestors: Vec<(u64, u64)>,
    /// Whether one of them lies in the destination.
    pub inside_destination: bool,
}

impl ProtectedPaths {
    /// Whether it is read.
    fn is_source(&self, seen: &Seen) -> bool {
        seen.kind == FileKind::Directory && self.sources.contains(&(seen.volume, seen.inode))
    }

    /// Whether it is read, or something in it is.
    fn contains_source(&self, seen: &Seen) -> bool {
        let is_above = seen.kind == FileKind::Directory && self.ancestors.contains(&(seen.volume, seen.inode));
        is_above || self.is_source(seen)
    }
}

/// What the sink does.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// Which attributes to keep.
    pub preserve: PreserveOptions,
    /// Who writes here.
    pub writer: WriterIdentity,
    /// Whether devices may be made.
    pub devices: bool,
    /// Leave files alone that are newer here.
    pub update: bool,
    /// Move data also of files whose size and time are the same.
    pub ignore_times: bool,
    /// Compare what is as large by a hash of all that it holds, not by time.
    pub checksum: bool,
    /// Tell the hash of every regular file that the source told of and that is there in the end.
    pub manifest: bool,
    /// How names of users and groups are looked up; none keeps their numbers.
    pub accounts: Option<AccountLookup>,
    /// Sizes in bytes of regular files that are moved; others are left alone.
    pub sizes: RangeInclusive<u64>,
    /// Remove what the source does not have.
    pub delete: bool,
    /// What the source leaves out is not removed.
    pub filter: Filter,
    /// What the user asked for: anything else that a source sends ends the transfer. None takes what comes.
    pub requested: Option<RequestedEntries>,
    /// Change nothing, and say what would be changed.
    pub dry_run: bool,
    /// Tell the source of everything that is made, changed or removed: its user wants to hear of it.
    pub report_changes: bool,
    /// Partial files that were written to since then may be another transfer's, and are not removed as what the source does not have.
    pub keep_partials_since: Stamp,
    /// Which names are one at the destination.
    pub names: Names,
    /// What is not removed.
    pub protected: ProtectedPaths,
    /// Whether the destination itself was made for this transfer.
    pub destination_created: bool,
    /// What a file is called here that is all the source has.
    pub alias: Option<Name>,
    /// Write to the files themselves, not beside them.
    pub in_place: bool,
    /// When data is made durable.
    pub sync: SyncMode,
    /// How the source hashes.
    pub hash: HashKind,
    /// Whether packed data is taken.
    pub accept_compressed: bool,
    /// Whether ACLs with names of users and groups are taken.
    pub acls: bool,
    /// Whether data of files is taken that the source was not asked for yet. Then nothing is continued, and no hash asked for.
    pub eager: bool,
    /// Whether a try of the same command was lost before this one, which may still have the journal.
    pub is_retry: bool,
    /// The identity of the transfer. The first eight bytes stay the same as long as what was written and not
    /// synced is there: until the machine is started anew. [`SERIES`] is that of all tries of one command.
    pub transfer: TransferId,
}

/// A file of which data is awaited.
#[derive(Debug)]
struct Incoming {
    name: Name,
    content: Content,
    /// Where it is written to.
    at: FilePath,
    /// Whether that is what has its name.
    in_place: bool,
    /// Attributes that it gets.
    attributes: Attributes,
    /// Its number in the journal, if it is noted there.
    key: Option<FileNumber>,
    /// Whether the source was told what is needed of it.
    answered: bool,
    /// Bytes that did not come yet.
    left: ExtentSet,
    /// Bytes that came, or were said to be holes.
    bytes: u64,
    /// Those of holes.
    holes: u64,
    /// Operations that write to it.
    writing: usize,
    /// How many bytes the source sent, once it says so.
    done: Option<u64>,
    /// The size and time that tell it from what was there; none if that had both.
    expected: Option<(u64, Option<Stamp>)>,
}

/// Entries of a batch, in the order of the source.
#[derive(Debug)]
struct IncomingBatch {
    first: FileNumber,
    entries: Vec<Entry>,
    /// Which have names that others had before, for the destination.
    duplicates: Vec<bool>,
    /// Which of those that are no hard links lie in directories where nothing is yet, and are not looked at.
    fresh: Vec<bool>,
    /// What is in their places; none before the look is over.
    found: Option<Vec<Result<Option<Found>, Fault>>>,
    /// None before the journal is known: who has it until then may still be finishing files here.
    lookup: Option<Ticket>,
}

/// The journal, before anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JournalState {
    Opening(Ticket),
    /// Somebody else has it; it is asked for again then, as soon as it is known when that is.
    Waiting(Option<Duration>),
    Ready,
}

/// The sink of a transfer.
#[derive(Debug)]
pub struct Sink<B> {
    options: SinkOptions,
    peer: PeerState<B>,
    journal_state: JournalState,
    /// When a journal is asked for no more that somebody else has.
    journal_deadline: Option<Duration>,
    /// The number that the next entry must have.
    next: u64,
    batches: VecDeque<IncomingBatch>,
    new_directories: NewDirectories,
    /// Bytes of files that were as they should be.
    unchanged_bytes: u64,
    /// What is in the way of the first work is being removed.
    removing_blockers: bool,
    /// Directories of the first work are being made.
    creating_directories: Option<Ticket>,
    preparing: BTreeMap<Ticket, decide::Prepared>,
    incoming: HashMap<u64, Incoming>,
    /// Their names: what is written to is that of one of them.
    active_names: HashSet<Name>,
    early_frames: EarlyFrames<B>,
    writes: BTreeMap<Ticket, Vec<receive::PendingWrite>>,
    pending_ops: PendingOps,
    hashes: FileHashes,
    accounts: Accounts,
    resume_log: ResumeLog,
    finalize: Finalization,
    /// What was done and is not told yet, as frames.
    unsent_changes: Vec<u8>,
    /// Told by the source at its end.
    source_end: Option<EndTotals>,
    /// Why it is given up; it ends when nothing is under way any more.
    stopping: bool,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// A sink at its beginning.
    pub fn new(options: SinkOptions) -> Self {
        let mut peer = PeerState::new(Side::Sink, options.transfer);
        let distrusts = TimesUnreliable(options.checksum || options.ignore_times);
        // A rehearsal leaves the journal to who goes on with it.
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
            return Err(WireError::InvalidValue("a flood of entries"));
        }
        self.check_requested(&entries)?;
        self.next += entries.len() as u64;
        self.peer.totals.entries += entries.len() as u64;
        let mut entries = entries;
        if let Some(alias) = &self.options.alias {
            // The root is the directory above what the user named: nothing else in it is a source's business.
            if self.next > 1 || !entries.iter().all(is_one_file) {
                return Err(WireError::InvalidValue("more than the one file that it told of"));
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
        let duplicates = entries.iter().map(|entry| self.finalize.case_folding.is_duplicate(&entry.name)).collect();
        let new = || entries.iter().filter(|entry| matches!(entry.object, Object::New(_)));
        let fresh: Vec<bool> = new().map(|entry| self.new_directories.contains_parent_of(&entry.name)).collect();
        self.batches.push_back(IncomingBatch { first, entries, duplicates, fresh, found: None, lookup: None });
        Ok(())
    }

    /// Looks at what is in the places of entries that were not looked for.
    fn submit_lookups(&mut self) {
        let details = Details { xattrs: self.options.preserve.xattrs, ..Details::default() };
        // Another host is not told where links lead here.
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
            batch.lookup = Some(self.peer.submit(Operation::Look { at, details, links }));
        }
    }

    /// Nothing comes that nobody asked for, under the names that it has at the source.
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

    /// A file failed here: the source hears of it, and the others go on.
    fn fail(&mut self, number: FileNumber, name: &Name, fault: &Fault) {
        self.peer.report_problem(ProblemSubject::File(number, name.clone()), reason(fault.why), &fault.text);
        if !self.drop_file(number) {
            self.finalize.record_failure(name, None);
        }
    }

    /// A file is whole, or failed: its name is free.
    fn remove_incoming(&mut self, number: u64) -> Option<Incoming> {
        self.incoming.remove(&number).inspect(|file| _ = self.active_names.remove(&file.name))
    }

    /// Forgets what came of a file; false if none is awaited.
    fn drop_file(&mut self, number: FileNumber) -> bool {
        let Some(file) = self.remove_incoming(number.get()) else { return false };
        self.finalize.record_failure(&file.name, file.expected);
        // What is under way may still write to it: it is removed when that is over.
        if !file.in_place {
            self.resume_log.discard_partial(&file.name, file.at);
        }
        true
    }

    /// Something was made, changed or removed; or it would be, in a rehearsal.
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

    /// Tells the source what was done, many things at once.
    fn flush_changes(&mut self) {
        if !self.unsent_changes.is_empty() {
            let frames = std::mem::take(&mut self.unsent_changes);
            self.peer.send_bytes(frames);
        }
    }

    fn give_up(&mut self, reason: Reason, text: &str) {
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
            Outcome::Looked(found) => {
                if let Some((_, links)) = self.finalize.link_lookup.take_if(|(lookup, _)| *lookup == ticket) {
                    self.create_links(links, found);
                } else if let Some(batch) = self.batches.iter_mut().find(|batch| batch.lookup == Some(ticket)) {
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
            Outcome::Each(results) => self.each(ticket, results),
            Outcome::Summed(outcome) => self.hash_completed(ticket, outcome),
            Outcome::Read { .. } | Outcome::Opened(_) => {}
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
            return written.into_iter().zip(results).for_each(|(item, result)| self.write_completed(item, result));
        }
        if let Some(failed) = self.resume_log.completed(ticket, &results) {
            return self.sync_failed(failed);
        }
        for (op, result) in self.pending_ops.completed(ticket, results) {
            self.op_done(op, result);
        }
    }

    /// Data of these files could not be made durable before it was to be noted.
    fn sync_failed(&mut self, failed: Vec<(Name, Fault)>) {
        for (name, fault) in failed {
            let is_it = |(_, file): &(&u64, &Incoming)| file.name == name;
            let number = self.incoming.iter().find(is_it).map(|(&number, _)| number);
            match number.and_then(|number| FileNumber::new(number).ok()) {
                // It has its name, and its mode is not for us to read; or it failed already, and is gone.
                _ if matches!(fault.why, Why::NotFound | Why::Permission) => {}
                Some(number) => self.fail(number, &name, &fault),
                None => self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text),
            }
        }
    }

    fn opened(&mut self, outcome: Outcome<B>) {
        match outcome {
            Outcome::Opened(Ok(Opened::Ours(bytes))) => self.resume_log.load(&bytes),
            Outcome::Opened(Ok(Opened::Absent)) => {}
            Outcome::Opened(Ok(Opened::Taken)) => {
                self.keep_all_partials();
                match self.options.is_retry {
                    true => self.journal_state = JournalState::Waiting(None),
                    false => self.resume_log.disable(),
                }
            }
            Outcome::Opened(Err(fault)) => {
                // Another user's, who would not let go of it for us.
                if matches!(fault.why, Why::Exists | Why::Permission) {
                    self.keep_all_partials();
                }
                // An absent root and the like are told by what cannot be made there.
                self.resume_log.disable();
            }
            _ => self.resume_log.disable(),
        }
    }

    /// Another transfer may be under way, and be in no hurry with what it has begun.
    fn keep_all_partials(&mut self) {
        self.options.keep_partials_since = Stamp { seconds: i64::MIN, nanoseconds: 0 };
    }

    /// Asks for the journal again if it is time, or goes without it if that was done for long enough.
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

    /// Whether the source knows what is needed of every entry.
    fn has_answered_all(&self) -> bool {
        let waiting =
            !self.batches.is_empty() || !self.finalize.awaiting_journal.is_empty() || self.finalize.awaiting_directories.is_some();
        !waiting && self.preparing.is_empty()
    }

    /// Whether an entry is known and was decided.
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
        // No later run would know what was begun.
        if !self.resume_log.is_enabled() {
            let is_begun = |file: &Incoming| !file.in_place && file.content.size() > BLOCK as u64;
            for (_, file) in self.incoming.drain().filter(|(_, file)| is_begun(file)) {
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
                    self.give_up(Reason::Protocol, &error.to_string());
                }
            }
            Event::Received(_) | Event::Sent(_) => {}
            Event::Closed(why) => {
                // After the end of the source nothing more comes from there.
                if self.peer.outcome.is_none() && self.source_end.is_none() {
                    self.give_up(Reason::Other, &format!("the connection to the source is gone: {why}"));
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
                    self.give_up(Reason::Protocol, &error.to_string());
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
        self.give_up(reason, text);
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
    Operation::Open { journal: FilePath::new(0, JOURNAL), most: resume_log::MAX_JOURNAL }
}

/// A time as ports say it.
fn stamp(inode: &Inode) -> Stamp {
    Stamp { seconds: inode.mtime.seconds(), nanoseconds: inode.mtime.nanoseconds() }
}

/// Whether an entry can be all that a source has.
fn is_one_file(entry: &Entry) -> bool {
    let is_file = matches!(&entry.object, Object::New(inode) if inode.kind != Kind::Directory);
    is_file && entry.name.components().count() == 1
}
