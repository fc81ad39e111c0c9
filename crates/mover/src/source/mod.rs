//! The source: scans the files, announces entries, and sends the data that the sink requests.

mod addresses;
mod hard_links;
mod hash_index;
mod options;
mod read;
mod scan;

pub use options::{Origin, SourceOptions};

use crate::accounts::{Account, Accounts};
use crate::acl;
use crate::chunk::{in_blocks, ChunkPolicyError, Chunker, ReadJob};
use crate::compression::{CompressionHistory, CompressionPolicy};
use crate::drive::{PeerState, PortCommand, TransferCore};
use crate::entry::{
    Content, DeviceNumber, Entry, EntryError, FileNumber, Inode, Kind, Mode, Object, Owner, Target, Time,
    Xattrs, CTIME_MIN_SIZE, MAX_EXTENTS,
};
use crate::extent::{Extent, ExtentSet};
use crate::hash_queue::HashQueue;
use crate::name::Name;
use crate::port::{
    ContentHash, Event, Fault, FileInfo, FileKind, FilePath, FileStat, Identity, Outcome, Ticket,
};
use crate::report::{reason, ChangeKind, Report, Totals, TransferOutcome};
use crate::wire::{
    BatchEncoder, DataRequest, EndTotals, FileHash, Frame, Holes, NeededData, Problem, ProblemSubject,
    Reason, Side, WireError,
};
use addresses::AddressLookup;
use hard_links::HardLinks;
use read::ReadQueue;
use scan::{PreviousName, Scan, ScannedEntry};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum entries that are unanswered, or whose data is not sent yet.
pub const WINDOW: u64 = 16_384;
/// Entries of a batch that is sent although more would fit.
const BATCH_TARGET: usize = 256;

/// A regular file that was announced to the sink.
#[derive(Debug)]
struct File {
    path: FilePath,
    name: Name,
    identity: Identity,
    content: Content,
    /// Blocks with data, if the entry omits holes.
    data: Option<ExtentSet>,
    /// Bytes to send or announce as holes; `None` until known.
    wanted: Option<u64>,
    sent: u64,
    /// Whether the sink requested its hash.
    hash_requested: bool,
    /// The compression results of a file with many blocks.
    history: CompressionHistory,
}

impl File {
    /// Starts sending the file, or some of its extents, in complete blocks. Returns the read job
    /// and the holes to announce; `None` if there is nothing to send.
    fn begin(&mut self, number: FileNumber, extents: Option<&Vec<Extent>>) -> Option<(ReadJob, Vec<Extent>)> {
        let size = self.content.size();
        let mut blocks = ExtentSet::default();
        match extents {
            None => in_blocks(self.content.extents(), size).for_each(|block| blocks.insert(block)),
            Some(extents) => in_blocks(extents.iter().copied(), size).for_each(|block| blocks.insert(block)),
        }
        let holes: Vec<Extent> = match &self.data {
            None => Vec::new(),
            Some(data) => blocks.iter().flat_map(|wanted| data.missing_in(wanted)).collect(),
        };
        holes.iter().for_each(|hole| blocks.remove(*hole));
        self.sent = holes.iter().map(|hole| hole.length()).sum();
        let job = ReadJob::remaining(number, self.identity.inode, &blocks);
        self.wanted = Some(job.bytes() + self.sent).filter(|bytes| *bytes > 0);
        self.wanted.map(|_| (job, holes))
    }
}

/// The source of a transfer: the side that reads files.
///
/// Like the sink, it is a state machine without I/O: [`TransferCore::handle`] takes completed
/// operations and received packets, [`TransferCore::poll`] returns the next operation or packet.
/// These activities overlap:
///
/// - *Scan.* The source lists directories depth first (`scan`), applies the filter, detects hard
///   links (`hard_links`), numbers the entries and sends them in batches ([`BatchEncoder`]).
/// - *Requests.* For each regular file the sink answers which data it needs, or requests a hash
///   first. In eager mode the source sends all data without waiting.
/// - *Reading.* Requested files are sorted by disk position (`addresses`, [`Chunker`]), read in
///   blocks or bundles, optionally compressed ([`CompressionPolicy`]), and sent with a hash per
///   part (`read`). A file that changes while it is read fails; the others continue.
/// - *End.* When everything is answered and sent, it sends an end frame and waits for the sink's.
///
/// Flow control: at most [`WINDOW`] entries are unanswered or have unsent data, and at most `reads`
/// buffers are in use. Memory is independent of the number of files, except for a few bytes per
/// hard link, and per name if origins overlap.
#[derive(Debug)]
pub struct Source<B> {
    options: SourceOptions,
    peer: PeerState<B>,
    scan: Scan,
    batch: BatchEncoder,
    batch_length: usize,
    next: FileNumber,
    answered: u64,
    /// Number of files whose hash the sink requested.
    hash_requests: u64,
    /// Bytes of files that the sink did not need.
    unneeded_bytes: u64,
    files: HashMap<u64, File>,
    links: HardLinks,
    chunker: Chunker,
    addresses: AddressLookup,
    reading: ReadQueue,
    /// The time of the last poll.
    now: Duration,
    compression: CompressionPolicy,
    hash_queue: HashQueue<FileNumber>,
    accounts: Accounts,
    sent_end: bool,
}

impl<B: AsRef<[u8]>> Source<B> {
    /// Creates a source.
    ///
    /// # Errors
    /// A [`ChunkPolicyError`] if the policy is out of range.
    pub fn new(options: SourceOptions) -> Result<Self, ChunkPolicyError> {
        let first = FileNumber::FIRST;
        Ok(Self {
            peer: PeerState::new(Side::Source, options.transfer),
            scan: Scan::new(&options),
            batch: BatchEncoder::new(first),
            batch_length: 0,
            next: first,
            answered: 0,
            hash_requests: 0,
            unneeded_bytes: 0,
            files: HashMap::new(),
            links: HardLinks::default(),
            chunker: Chunker::new(options.policy.clone())?,
            addresses: AddressLookup::default(),
            reading: ReadQueue::new(&options),
            now: Duration::ZERO,
            compression: CompressionPolicy::new(options.compress, options.limit),
            hash_queue: HashQueue::default(),
            accounts: Accounts::new(options.accounts),
            sent_end: false,
            options,
        })
    }

    fn add_scanned(&mut self, seen_names: ScannedEntry) {
        let ScannedEntry { path, name, enter, found } = seen_names;
        let found = match found {
            Ok(found) => found,
            Err(fault) => {
                return self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text)
            }
        };
        let is_directory = found.metadata.kind == FileKind::Directory;
        // Sockets are useless without their server.
        if found.metadata.kind == FileKind::Socket || self.is_destination(&name, enter, &found.metadata) {
            return;
        }
        // Like rsync, filter rules do not apply to the parents of a listed name.
        if enter && !self.options.filter.includes(&name, is_directory) {
            return;
        }
        if !enter && !is_directory {
            // The listed name itself fails with "not found".
            if found.metadata.kind == FileKind::Symlink {
                self.skip_entry(name, "a symbolic link in the path of a listed name is not followed");
            }
            return;
        }
        if is_directory && !self.options.recursive && !self.options.listed {
            return self.skip_entry(name, "is a directory: use -r or -a to copy it");
        }
        if enter && found.has_hidden_xattrs {
            return self.skip_entry(name, "cannot read its extended attributes");
        }
        match self.scan.record_name(&name, is_directory) {
            PreviousName::New => {}
            // Directories of several origins are merged.
            PreviousName::Directory if is_directory && enter => return self.scan.enter(path, name),
            PreviousName::Other if is_directory && enter => {
                return self
                    .skip_entry(name, "an earlier source has a different kind of file with this name");
            }
            PreviousName::Directory | PreviousName::Other => return,
        }
        let inode = match inode(&found, &self.options, &mut self.accounts) {
            Ok(inode) => inode,
            Err(text) => return self.skip_entry(name, &text),
        };
        // Only after the checks above, so that links refer to announced files.
        if let Some(object) = self.as_hard_link(&name, &found) {
            return self.send_entry(Entry { name, object });
        }
        if is_directory && enter {
            self.scan.enter(path.clone(), name.clone());
        }
        if let Kind::File(content) = &inode.kind {
            let identity = found.metadata.identity();
            let content = content.clone();
            let data = blocks_with_data(&content, &found).filter(|_| self.options.holes);
            let file = File {
                path,
                name: name.clone(),
                identity,
                content,
                data,
                wanted: None,
                sent: 0,
                hash_requested: false,
                history: CompressionHistory::default(),
            };
            self.files.insert(self.next.get(), file);
        }
        self.send_entry(Entry { name, object: Object::New(inode) });
    }

    /// Returns whether an object is the destination, which is not copied into itself. It is
    /// reported if it is a source itself and not excluded, and silently skipped below a source.
    fn is_destination(&mut self, name: &Name, enter: bool, metadata: &FileStat) -> bool {
        let is_it = self.options.skip_directory == Some((metadata.volume, metadata.inode)) && !name.is_root();
        let is_source = || self.options.origins.iter().any(|origin| origin.only.as_ref() == Some(name));
        let is_directory = enter && metadata.kind == FileKind::Directory;
        if is_it && is_directory && is_source() && self.options.filter.includes(name, true) {
            self.skip_entry(name.clone(), "the destination cannot be copied into itself");
        }
        is_it
    }

    fn skip_entry(&mut self, name: Name, text: &str) {
        self.peer.report_problem(ProblemSubject::Name(name), Reason::Unsupported, text);
    }

    /// Returns the hard link to an earlier name of the file, if there is one.
    fn as_hard_link(&mut self, name: &Name, found: &FileInfo) -> Option<Object> {
        let metadata = &found.metadata;
        if !self.options.links || metadata.links < 2 || metadata.kind == FileKind::Directory {
            return None;
        }
        self.links.first(metadata, name).map(Object::HardLink)
    }

    fn send_entry(&mut self, entry: Entry) {
        for _ in 0..2 {
            match self.batch.push(&entry) {
                Ok(true) => {
                    self.batch_length += 1;
                    self.peer.totals.entries += 1;
                    match FileNumber::new(self.next.get() + 1) {
                        Ok(next) => self.next = next,
                        Err(error) => self.abort(Reason::Other, &error.to_string()),
                    }
                    return;
                }
                Ok(false) => self.send_batch(),
                Err(error) => {
                    self.files.remove(&self.next.get());
                    return self.peer.report_problem(
                        ProblemSubject::Name(entry.name),
                        Reason::Unsupported,
                        &error.to_string(),
                    );
                }
            }
        }
    }

    fn send_batch(&mut self) {
        let mut frames = Vec::new();
        match self.batch.take(&mut frames) {
            Ok(_) if frames.is_empty() => {}
            Ok(_) => self.peer.send_bytes(frames),
            Err(error) => self.abort(Reason::Other, &error.to_string()),
        }
        let peer_problem = self.next.get() - std::mem::take(&mut self.batch_length) as u64..self.next.get();
        if self.options.eager {
            peer_problem.for_each(|number| self.begin_eager(number));
        }
    }

    fn want(&mut self, want: DataRequest) -> Result<(), WireError> {
        let last = want.first.get().saturating_add(want.count);
        // Each file is requested at most once, so these counters bound the work of the loop below.
        let count = if want.what == NeededData::Hash { &mut self.hash_requests } else { &mut self.answered };
        *count = count.saturating_add(want.count);
        if last.max(self.answered).max(self.hash_requests) > self.next.get() - self.batch_length as u64 {
            return Err(WireError::InvalidValue("a request for an unknown entry"));
        }
        for number in want.first.get()..last {
            self.count_unneeded(number, &want.what);
            match &want.what {
                NeededData::Nothing => self.drop_file(number),
                // It was started when it was announced.
                NeededData::All if self.options.eager => {}
                NeededData::All => self.begin(number, None)?,
                NeededData::Some(extents) => self.begin(number, Some(extents))?,
                NeededData::Hash => self.begin_hash(number)?,
            }
        }
        Ok(())
    }

    /// Starts hashing a file.
    fn begin_hash(&mut self, number: u64) -> Result<(), WireError> {
        // The file may have failed meanwhile.
        let Some(file) = self.files.get_mut(&number) else { return Ok(()) };
        if file.wanted.is_some() || std::mem::replace(&mut file.hash_requested, true) {
            return Err(WireError::InvalidValue("a repeated or late request for a hash"));
        }
        self.hash_queue.push(FileNumber::new(number)?, file.path.clone(), Some(file.identity));
        Ok(())
    }

    fn hash_requested(&mut self, ticket: Ticket, outcome: Result<ContentHash, Fault>) {
        match self.hash_queue.completed(ticket, outcome) {
            Some((file, Ok(digest))) => self.peer.send(&Frame::FileHash(FileHash { file, digest })),
            Some((file, Err(fault))) => self.fail(file, &fault),
            None => {}
        }
    }

    /// Counts the data that the sink already has.
    fn count_unneeded(&mut self, number: u64, needed: &NeededData) {
        let Some(file) = self.files.get(&number) else { return };
        let wanted = match needed {
            NeededData::Nothing => 0,
            NeededData::Some(extents) => extents.iter().map(|extent| extent.length()).sum(),
            NeededData::All | NeededData::Hash => return,
        };
        self.unneeded_bytes = self.unneeded_bytes.saturating_add(file.content.size().saturating_sub(wanted));
    }

    /// Forgets a file that the sink does not need.
    fn drop_file(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            let unsent = file.wanted.map_or(0, |wanted| wanted - file.sent);
            self.peer.totals.size = self.peer.totals.size.saturating_sub(unsent);
        }
    }

    /// Starts sending a file.
    fn begin(&mut self, number: u64, extents: Option<&Vec<Extent>>) -> Result<(), WireError> {
        let file = self.files.get_mut(&number).filter(|file| file.wanted.is_none());
        let file = file.ok_or(WireError::InvalidValue("a request for an entry without data"))?;
        let started = file.begin(FileNumber::new(number)?, extents);
        self.send_file(started.ok_or(WireError::InvalidValue("an empty request"))?);
        Ok(())
    }

    /// Starts sending a file that was just announced; a file without data needs nothing more.
    fn begin_eager(&mut self, number: u64) {
        let (Some(file), Ok(peer_problem)) = (self.files.get_mut(&number), FileNumber::new(number)) else {
            return;
        };
        match file.begin(peer_problem, None) {
            Some(started) => self.send_file(started),
            None => drop(self.files.remove(&number)),
        }
    }

    /// Announces the holes of a file and queues its data for reading.
    fn send_file(&mut self, (job, holes): (ReadJob, Vec<Extent>)) {
        for some in holes.chunks(MAX_EXTENTS) {
            if let Ok(holes) = Holes::new(job.file(), some.to_vec()) {
                self.peer.send(&Frame::Holes(holes));
            }
        }
        self.peer.totals.size = self.peer.totals.size.saturating_add(job.bytes());
        match self.options.by_address && self.addresses.is_worthwhile() {
            _ if job.bytes() == 0 => self.all_sent(job.file()),
            true => self.addresses.push(job),
            false => self.reading.push(&mut self.chunker, job),
        }
    }

    /// Handles a file that cannot be read; the others continue.
    fn fail(&mut self, number: FileNumber, fault: &Fault) {
        if let Some(file) = self.files.remove(&number.get()) {
            self.peer.report_problem(ProblemSubject::File(number, file.name), reason(fault.why), &fault.text);
        }
    }

    fn abort(&mut self, reason: Reason, text: &str) {
        if self.peer.outcome.is_none() {
            self.peer.report_problem(ProblemSubject::Transfer, reason, text);
            self.peer.outcome = Some(TransferOutcome::Failed);
        }
    }

    fn received(&mut self, frames: &[u8], data: Option<usize>) -> Result<(), WireError> {
        let mut rest = frames;
        while let Some(frame) = self.peer.next_frame(&mut rest)? {
            match frame {
                Frame::DataRequests(wants) => {
                    wants.into_inner().into_iter().try_for_each(|want| self.want(want))?
                }
                Frame::Problem(problem) => self.peer_problem(problem),
                Frame::ManifestEntry(unneeded_bytes) => {
                    self.peer.reports.push(Report::ManifestEntry(unneeded_bytes))
                }
                Frame::Change(did) => {
                    // Preliminary totals: the end frame replaces them, but may never arrive.
                    match did.action {
                        ChangeKind::Removed => self.peer.totals.removed += 1,
                        _ => self.peer.totals.moved += 1,
                    }
                    self.peer.reports.push(Report::Change(did));
                }
                Frame::End(end) if self.sent_end => {
                    let EndTotals { entries: moved, bytes, size, resumed, unchanged, removed, .. } = end;
                    let totals = self.peer.totals;
                    self.peer.totals = Totals { moved, bytes, size, resumed, unchanged, removed, ..totals };
                    self.peer.outcome = Some(TransferOutcome::Done);
                }
                _ => return Err(WireError::InvalidValue("a frame that a sink does not send")),
            }
        }
        self.peer.end_packet(data)
    }

    fn peer_problem(&mut self, problem: Problem) {
        match &problem.about {
            ProblemSubject::Transfer => self.peer.outcome = Some(TransferOutcome::Failed),
            ProblemSubject::File(number, _) => drop(self.files.remove(&number.get())),
            ProblemSubject::Name(_) => {}
        }
        self.peer.record_problem(problem);
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        match outcome {
            Outcome::Listed(listing) => {
                self.scan
                    .listed(ticket, listing)
                    .into_iter()
                    .for_each(|seen_names| self.add_scanned(seen_names));
            }
            Outcome::Stat(found) if self.addresses_found(ticket, &found) => {}
            Outcome::Stat(found) => {
                self.scan
                    .looked_up(ticket, found)
                    .into_iter()
                    .for_each(|seen_names| self.add_scanned(seen_names));
            }
            Outcome::Read { results, data, packed } => self.read(ticket, results, data, packed),
            Outcome::HashedFile(outcome) => self.hash_requested(ticket, outcome),
            Outcome::Results(_) | Outcome::OpenedJournal(_) => {}
        }
    }

    /// Continues the scan if the window has space for its results.
    fn submit_scan(&mut self) {
        while self.files.len() as u64 + self.unanswered() + (self.scan.expected() as u64) <= WINDOW {
            let Some((operation, step)) = self.scan.next() else { return };
            let ticket = self.peer.submit(operation);
            self.scan.submitted(ticket, step);
        }
    }

    fn unanswered(&self) -> u64 {
        self.next.get() - self.answered
    }

    /// Returns the number of announced entries without an answer.
    fn awaited(&self) -> u64 {
        match self.options.eager {
            true => 0,
            false => self.unanswered() - self.batch_length as u64,
        }
    }

    /// Sends the pending entries, unless more follow soon and the sink has enough work.
    fn flush_batch(&mut self) {
        let starving = self.reading.is_idle() && self.awaited() == 0;
        if self.batch_length > 0 && (self.batch_length >= BATCH_TARGET || starving || self.scan.is_finished())
        {
            self.send_batch();
        }
    }

    fn end_if_complete(&mut self) {
        let is_announced = self.scan.is_finished() && self.batch_length == 0;
        let is_sent = self.awaited() == 0 && self.files.is_empty() && self.reading.is_idle();
        // The bandwidth limit also covers the last bytes; otherwise transfers of one block are
        // unlimited.
        let is_sent = is_sent && self.reading.wake().is_none();
        let may_end = self.options.eager || self.peer.received_header;
        if is_announced && is_sent && may_end && !self.sent_end {
            self.sent_end = true;
            let totals = &self.peer.totals;
            let (entries, failed, bytes) = (totals.entries, totals.failed, totals.bytes);
            self.peer.send(&Frame::End(EndTotals { entries, failed, bytes, ..EndTotals::default() }));
        }
    }
}

impl<B: AsRef<[u8]>> TransferCore<B> for Source<B> {
    fn handle(&mut self, event: Event<B>) {
        if self.peer.outcome.is_some() {
            return;
        }
        match event {
            Event::Done(ticket, outcome) => self.done(ticket, outcome),
            Event::Received(packet) => {
                let length = packet.data.as_ref().map(|(_, length)| *length);
                if let Err(error) = self.received(&packet.frames, length) {
                    self.abort(Reason::Protocol, &error.to_string());
                }
            }
            Event::Sent(bytes) => self.compression.link.sent(bytes as u64),
            Event::Closed(why) => {
                self.abort(Reason::Other, &format!("the connection to the destination was lost: {why}"))
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<PortCommand<B>> {
        self.compression.link.update(now);
        self.now = now;
        if self.peer.commands.is_empty() && self.peer.outcome.is_none() {
            self.submit_scan();
            self.flush_batch();
            self.hash_queue.submit_reads(&mut self.peer);
            self.submit_lookups();
            self.submit_reads(now);
            self.end_if_complete();
        }
        self.peer.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        self.reading.wake()
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
        self.unneeded_bytes.saturating_add(self.peer.totals.bytes).saturating_add(self.answered)
    }
}

/// Converts a found object to an inode, or returns why it is not supported.
fn inode(found: &FileInfo, options: &SourceOptions, accounts: &mut Accounts) -> Result<Inode, String> {
    let text = |error: EntryError| error.to_string();
    let metadata = &found.metadata;
    let device = |major, minor| match options.devices {
        true => DeviceNumber::new(major, minor).map_err(text),
        false => Err("device files are not copied".to_owned()),
    };
    let kind = match metadata.kind {
        FileKind::File => Kind::File(content(found, options.changed).map_err(text)?),
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => {
            Kind::Symlink(Target::new(found.target.clone().unwrap_or_default()).map_err(text)?)
        }
        FileKind::Fifo => Kind::Fifo,
        FileKind::Socket => return Err("sockets are not copied".to_owned()),
        FileKind::CharacterDevice(major, minor) => Kind::CharacterDevice(device(major, minor)?),
        FileKind::BlockDevice(major, minor) => Kind::BlockDevice(device(major, minor)?),
    };
    Ok(Inode {
        kind,
        mode: Mode::new(metadata.mode).map_err(text)?,
        mtime: Time::new(metadata.mtime.seconds, metadata.mtime.nanoseconds).map_err(text)?,
        user: Owner::new(metadata.user, accounts.name(Account::User, metadata.user)).map_err(text)?,
        group: Owner::new(metadata.group, accounts.name(Account::Group, metadata.group)).map_err(text)?,
        xattrs: xattrs(found, options, accounts).map_err(text)?,
    })
}

fn xattrs(found: &FileInfo, options: &SourceOptions, accounts: &mut Accounts) -> Result<Xattrs, EntryError> {
    let mut xattrs = Xattrs::default();
    for (name, value) in found.xattrs.iter().filter(|(name, _)| !acl::is_wire_only(name)) {
        match options.acls.then(|| acl::encode_names(name, value, accounts)).flatten() {
            Some((name, value)) => xattrs.insert(name, &value)?,
            None => xattrs.insert(name, value)?,
        }
    }
    Ok(xattrs)
}

fn content(found: &FileInfo, send_ctime: bool) -> Result<Content, EntryError> {
    let metadata = &found.metadata;
    let content = match &found.data {
        None => Content::dense(metadata.size),
        Some(data) => {
            let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end));
            Content::from_extents(metadata.size, extents)
        }
    }?;
    let is_wire_only = send_ctime && metadata.size >= CTIME_MIN_SIZE;
    let changed =
        is_wire_only.then(|| Time::new(metadata.ctime.seconds, metadata.ctime.nanoseconds)).transpose()?;
    Ok(content.with_ctime(changed))
}

/// Returns the blocks of a file that have data, if its entry omits holes.
fn blocks_with_data(content: &Content, found: &FileInfo) -> Option<ExtentSet> {
    let data = found.data.as_ref().filter(|_| content.may_omit_holes())?;
    let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end.min(content.size())));
    let mut blocks = ExtentSet::default();
    in_blocks(extents, content.size()).for_each(|block| blocks.insert(block));
    Some(blocks)
}
