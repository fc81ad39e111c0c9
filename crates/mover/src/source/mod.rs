//! The side where the files are: scans, tells of entries, and sends what the sink wants.

mod hash_index;
mod hard_links;
mod addresses;
mod read;
mod scan;

use crate::accounts::{Account, Accounts, AccountLookup};
use crate::acl;
use crate::chunk::{Chunker, ReadJob, ChunkPolicy, ChunkPolicyError};
use crate::drive::{PortCommand, TransferCore, PeerState};
use crate::entry::{
    Content, DeviceNumber, Entry, EntryError, FileNumber, Inode, Kind, Mode, Object, Owner, Target, Time,
    Xattrs, CTIME_MIN_SIZE, MAX_EXTENTS,
};
use crate::extent::{Extent, ExtentSet};
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::name::Name;
use crate::compression::{CompressMode, CompressionPolicy, CompressionHistory};
use crate::report::{reason, ChangeKind, TransferOutcome, Report, Totals};
use crate::hash_queue::HashQueue;
use crate::wire::{
    ProblemSubject, BatchEncoder, EndTotals, Frame, Holes, NeededData, Problem, Reason, Side, FileHash, TransferId, DataRequest, WireError,
};
use hard_links::HardLinks;
use numaio_machine::port::{
    Event, Fault, FileKind, FilePath, Found, Identity, Outcome, Seen, Summing, Ticket, BLOCK,
};
use addresses::AddressLookup;
use read::ReadQueue;
use scan::{PreviousName, ScannedEntry, Scan};
use std::collections::HashMap;
use std::time::Duration;

/// Most entries that the sink did not answer yet, or whose data was not sent yet.
pub const WINDOW: u64 = 16_384;
/// Entries of a batch that is sent though there is room for more.
const BATCH_TARGET: usize = 256;

/// Where a scan begins: see [`crate::filter::SourcePath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Which root of the port.
    pub root: u32,
    /// The one thing in it that is moved; none if all of the directory's content is.
    pub only: Option<Name>,
    /// Whether what a directory holds is moved too, if anything is.
    pub enter: bool,
    /// Whether the directories above it are moved first, without what they hold.
    pub with_parents: bool,
}

impl Origin {
    fn path(&self) -> FilePath {
        FilePath::new(self.root, self.only.as_ref().map_or(&b""[..], Name::as_bytes))
    }
}

/// What the source does.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// Where to begin.
    pub origins: Vec<Origin>,
    /// Whether to move directories with what they hold; else they are left out, and said.
    pub recursive: bool,
    /// The origins are a list of names: directories among them are moved by themselves.
    pub listed: bool,
    /// Whether to read extended attributes.
    pub xattrs: bool,
    /// Whether to move devices.
    pub devices: bool,
    /// What to leave out.
    pub filter: Filter,
    /// A directory to pass over, by the numbers of its file system and in it: the destination, which would be moved into itself.
    pub skip_directory: Option<(u64, u64)>,
    /// How to hash.
    pub hash: HashKind,
    /// How to cut files into pieces.
    pub policy: ChunkPolicy,
    /// Operations that read, at a time.
    pub reads: usize,
    /// Files lie on a disk with a head: they are read in the order in which they lie there, as far as it is known,
    /// not in that of their inodes.
    pub by_address: bool,
    /// Most bytes of data a second, as they go to the sink.
    pub limit: Option<u64>,
    /// Whether data is packed for its way. The sink must take packed data, unless it is [`CompressMode::None`].
    pub compress: CompressMode,
    /// Whether files are sent as soon as the sink was told of them: it has next to nothing of them, and takes them.
    pub eager: bool,
    /// Whether the sink takes holes that are said apart, of files that have too many.
    pub holes: bool,
    /// Whether files can have further names at the sink; else each name is a file there.
    pub links: bool,
    /// Whether the sink takes ACLs with names of users and groups; else they go with numbers alone.
    pub acls: bool,
    /// Whether the sink takes it that it is said when large files were last changed.
    pub changed: bool,
    /// How names of users and groups are looked up; none leaves them out.
    pub accounts: Option<AccountLookup>,
    /// The identity of the transfer.
    pub transfer: TransferId,
}

/// A regular file that the sink was told of.
#[derive(Debug)]
struct File {
    path: FilePath,
    name: Name,
    identity: Identity,
    content: Content,
    /// Blocks with data, if there are more holes than could be said with the entry.
    data: Option<ExtentSet>,
    /// Bytes that are to be sent or said to be holes; none before that is known.
    wanted: Option<u64>,
    sent: u64,
    /// Whether the sink asked for its hash.
    hash_requested: bool,
    /// What is known of packing it, if it has many blocks.
    history: CompressionHistory,
}

impl File {
    /// Wants all of it, or some of it, to be sent in whole blocks, and tells which of them are holes; none if there is no byte of that.
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

/// The source of a transfer.
#[derive(Debug)]
pub struct Source<B> {
    options: SourceOptions,
    peer: PeerState<B>,
    scan: Scan,
    batch: BatchEncoder,
    batch_length: usize,
    next: FileNumber,
    answered: u64,
    /// Of how many files the sink asked for the hash.
    hash_requests: u64,
    /// Bytes of files that the sink did not want.
    unneeded_bytes: u64,
    files: HashMap<u64, File>,
    links: HardLinks,
    chunker: Chunker,
    addresses: AddressLookup,
    reading: ReadQueue,
    /// When it was polled last.
    now: Duration,
    compression: CompressionPolicy,
    hash_queue: HashQueue<FileNumber>,
    accounts: Accounts,
    sent_end: bool,
}

impl<B: AsRef<[u8]>> Source<B> {
    /// A source at its beginning.
    ///
    /// # Errors
    /// The policy is out of bounds.
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
            Err(fault) => return self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text),
        };
        let is_directory = found.seen.kind == FileKind::Directory;
        // Nothing is behind a socket without its server.
        if found.seen.kind == FileKind::Socket || self.is_destination(&name, enter, &found.seen) {
            return;
        }
        // What is on the way of a listed name is not asked for by itself: so does rsync.
        if enter && !self.options.filter.includes(&name, is_directory) {
            return;
        }
        if !enter && !is_directory {
            // Nothing is below a file, which is told of the name.
            if found.seen.kind == FileKind::Symlink {
                self.skip_entry(name, "a symbolic link on the way to a listed name is not followed");
            }
            return;
        }
        if is_directory && !self.options.recursive && !self.options.listed {
            return self.skip_entry(name, "it is a directory: add -r or -a");
        }
        if enter && found.hides {
            return self.skip_entry(name, "it has extended attributes that may not be read");
        }
        match self.scan.record_name(&name, is_directory) {
            PreviousName::New => {}
            // The directories of two origins are merged.
            PreviousName::Directory if is_directory && enter => return self.scan.enter(path, name),
            PreviousName::Other if is_directory && enter => {
                return self.skip_entry(name, "an earlier source has something else of this name");
            }
            PreviousName::Directory | PreviousName::Other => return,
        }
        let inode = match inode(&found, &self.options, &mut self.accounts) {
            Ok(inode) => inode,
            Err(text) => return self.skip_entry(name, &text),
        };
        // Only of what is told once further names are links to it.
        if let Some(object) = self.as_hard_link(&name, &found) {
            return self.send_entry(Entry { name, object });
        }
        if is_directory && enter {
            self.scan.enter(path.clone(), name.clone());
        }
        if let Kind::File(content) = &inode.kind {
            let identity = found.seen.identity();
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

    /// Whether it is the destination, which is not moved into itself: a source that is it is told, unless a rule leaves it out, and below
    /// one it is passed over.
    fn is_destination(&mut self, name: &Name, enter: bool, seen: &Seen) -> bool {
        let is_it = self.options.skip_directory == Some((seen.volume, seen.inode)) && !name.is_root();
        let is_source = || self.options.origins.iter().any(|origin| origin.only.as_ref() == Some(name));
        let is_directory = enter && seen.kind == FileKind::Directory;
        if is_it && is_directory && is_source() && self.options.filter.includes(name, true) {
            self.skip_entry(name.clone(), "it is the destination itself, which is not moved into itself");
        }
        is_it
    }

    fn skip_entry(&mut self, name: Name, text: &str) {
        self.peer.report_problem(ProblemSubject::Name(name), Reason::Unsupported, text);
    }

    /// Whether it is a further name of a file whose first name was sent.
    fn as_hard_link(&mut self, name: &Name, found: &Found) -> Option<Object> {
        let seen = &found.seen;
        if !self.options.links || seen.links < 2 || seen.kind == FileKind::Directory {
            return None;
        }
        self.links.first(seen, name).map(Object::HardLink)
    }

    fn send_entry(&mut self, entry: Entry) {
        for _ in 0..2 {
            match self.batch.push(&entry) {
                Ok(true) => {
                    self.batch_length += 1;
                    self.peer.totals.entries += 1;
                    match FileNumber::new(self.next.get() + 1) {
                        Ok(next) => self.next = next,
                        Err(error) => self.give_up(Reason::Other, &error.to_string()),
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
            Err(error) => self.give_up(Reason::Other, &error.to_string()),
        }
        let peer_problem = self.next.get() - std::mem::take(&mut self.batch_length) as u64..self.next.get();
        if self.options.eager {
            peer_problem.for_each(|number| self.begin_eager(number));
        }
    }

    fn want(&mut self, want: DataRequest) -> Result<(), WireError> {
        let last = want.first.get().saturating_add(want.count);
        // Of each file it asks once, so that both bound how often what follows is gone through.
        let count = if want.what == NeededData::Hash { &mut self.hash_requests } else { &mut self.answered };
        *count = count.saturating_add(want.count);
        if last.max(self.answered).max(self.hash_requests) > self.next.get() - self.batch_length as u64 {
            return Err(WireError::InvalidValue("an answer about no entry"));
        }
        for number in want.first.get()..last {
            self.count_unneeded(number, &want.what);
            match &want.what {
                NeededData::Nothing => self.drop_file(number),
                // It was begun when the sink was told of it.
                NeededData::All if self.options.eager => {}
                NeededData::All => self.begin(number, None)?,
                NeededData::Some(extents) => self.begin(number, Some(extents))?,
                NeededData::Hash => self.begin_hash(number)?,
            }
        }
        Ok(())
    }

    /// Begins to hash a file.
    fn begin_hash(&mut self, number: u64) -> Result<(), WireError> {
        // It may have failed here while it was asked for.
        let Some(file) = self.files.get_mut(&number) else { return Ok(()) };
        if file.wanted.is_some() || std::mem::replace(&mut file.hash_requested, true) {
            return Err(WireError::InvalidValue("a hash that was not to be asked for"));
        }
        self.hash_queue.push(FileNumber::new(number)?, file.path.clone(), Some(file.identity));
        Ok(())
    }

    fn hash_requested(&mut self, ticket: Ticket, outcome: Result<Summing, Fault>) {
        match self.hash_queue.completed(ticket, outcome) {
            Some((file, Ok(digest))) => self.peer.send(&Frame::FileHash(FileHash { file, digest })),
            Some((file, Err(fault))) => self.fail(file, &fault),
            None => {}
        }
    }

    /// Notes what is at the sink already.
    fn count_unneeded(&mut self, number: u64, needed: &NeededData) {
        let Some(file) = self.files.get(&number) else { return };
        let wanted = match needed {
            NeededData::Nothing => 0,
            NeededData::Some(extents) => extents.iter().map(|extent| extent.length()).sum(),
            NeededData::All | NeededData::Hash => return,
        };
        self.unneeded_bytes = self.unneeded_bytes.saturating_add(file.content.size().saturating_sub(wanted));
    }

    /// Nothing of a file is needed.
    fn drop_file(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            let unsent = file.wanted.map_or(0, |wanted| wanted - file.sent);
            self.peer.totals.size = self.peer.totals.size.saturating_sub(unsent);
        }
    }

    /// Begins to send a file.
    fn begin(&mut self, number: u64, extents: Option<&Vec<Extent>>) -> Result<(), WireError> {
        let file = self.files.get_mut(&number).filter(|file| file.wanted.is_none());
        let file = file.ok_or(WireError::InvalidValue("an answer about no file"))?;
        let begun = file.begin(FileNumber::new(number)?, extents);
        self.send_file(begun.ok_or(WireError::InvalidValue("an answer that wants no byte"))?);
        Ok(())
    }

    /// The same of one that the sink was just told of. One without data needs no more than that.
    fn begin_eager(&mut self, number: u64) {
        let (Some(file), Ok(peer_problem)) = (self.files.get_mut(&number), FileNumber::new(number)) else { return };
        match file.begin(peer_problem, None) {
            Some(begun) => self.send_file(begun),
            None => drop(self.files.remove(&number)),
        }
    }

    /// Has a file read and sent, but for its holes.
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

    /// A file cannot be read as it should be: the others go on.
    fn fail(&mut self, number: FileNumber, fault: &Fault) {
        if let Some(file) = self.files.remove(&number.get()) {
            self.peer.report_problem(ProblemSubject::File(number, file.name), reason(fault.why), &fault.text);
        }
    }

    fn give_up(&mut self, reason: Reason, text: &str) {
        if self.peer.outcome.is_none() {
            self.peer.report_problem(ProblemSubject::Transfer, reason, text);
            self.peer.outcome = Some(TransferOutcome::Failed);
        }
    }

    fn received(&mut self, frames: &[u8], data: Option<usize>) -> Result<(), WireError> {
        let mut rest = frames;
        while let Some(frame) = self.peer.next_frame(&mut rest)? {
            match frame {
                Frame::DataRequests(wants) => wants.into_inner().into_iter().try_for_each(|want| self.want(want))?,
                Frame::Problem(problem) => self.peer_problem(problem),
                Frame::ManifestEntry(unneeded_bytes) => self.peer.reports.push(Report::ManifestEntry(unneeded_bytes)),
                Frame::Change(did) => {
                    // Until the end tells all: it may never come.
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
                self.scan.listed(ticket, listing).into_iter().for_each(|seen_names| self.add_scanned(seen_names));
            }
            Outcome::Looked(found) if self.addresses_found(ticket, &found) => {}
            Outcome::Looked(found) => {
                self.scan.looked_up(ticket, found).into_iter().for_each(|seen_names| self.add_scanned(seen_names));
            }
            Outcome::Read { results, data, packed } => self.read(ticket, results, data, packed),
            Outcome::Summed(outcome) => self.hash_requested(ticket, outcome),
            Outcome::Each(_) | Outcome::Opened(_) => {}
        }
    }

    /// Lists more if there is room for what will be met.
    fn submit_scan(&mut self) {
        while self.files.len() as u64 + self.unanswered() + (self.scan.expected() as u64) <= WINDOW {
            let Some((operation, begun)) = self.scan.next() else { return };
            let ticket = self.peer.submit(operation);
            self.scan.submitted(ticket, begun);
        }
    }

    fn unanswered(&self) -> u64 {
        self.next.get() - self.answered
    }

    /// Entries that the sink was told of, and whose answers are waited for.
    fn awaited(&self) -> u64 {
        match self.options.eager {
            true => 0,
            false => self.unanswered() - self.batch_length as u64,
        }
    }

    /// Sends the entries that wait, unless more come soon and the sink has enough to do.
    fn flush_batch(&mut self) {
        let starving = self.reading.is_idle() && self.awaited() == 0;
        if self.batch_length > 0 && (self.batch_length >= BATCH_TARGET || starving || self.scan.is_finished()) {
            self.send_batch();
        }
    }

    fn end_if_complete(&mut self) {
        let is_told = self.scan.is_finished() && self.batch_length == 0;
        let is_sent = self.awaited() == 0 && self.files.is_empty() && self.reading.is_idle();
        // The time that the last bytes take under a limit passes, too: else whatever fits into one block has none.
        let is_sent = is_sent && self.reading.wake().is_none();
        let may_end = self.options.eager || self.peer.received_header;
        if is_told && is_sent && may_end && !self.sent_end {
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
                    self.give_up(Reason::Protocol, &error.to_string());
                }
            }
            Event::Sent(bytes) => self.compression.link.sent(bytes as u64),
            Event::Closed(why) => {
                self.give_up(Reason::Other, &format!("the connection to the destination is gone: {why}"))
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
        self.unneeded_bytes.saturating_add(self.peer.totals.bytes).saturating_add(self.answered)
    }
}

/// Extents widened to whole blocks, the last one to the end of the file: what is hashed, sent and resumed.
pub(crate) fn in_blocks(extents: impl Iterator<Item = Extent>, size: u64) -> impl Iterator<Item = Extent> {
    let block = BLOCK as u64;
    extents.filter_map(move |extent| {
        let start = extent.start() / block * block;
        let end = extent.end().div_ceil(block).saturating_mul(block).min(size);
        Extent::between(start, end)
    })
}

/// What was found as the protocol says it; else why it cannot be said.
fn inode(found: &Found, options: &SourceOptions, accounts: &mut Accounts) -> Result<Inode, String> {
    let text = |error: EntryError| error.to_string();
    let seen = &found.seen;
    let device = |major, minor| match options.devices {
        true => DeviceNumber::new(major, minor).map_err(text),
        false => Err("it is a device, and devices are not moved".to_owned()),
    };
    let kind = match seen.kind {
        FileKind::File => Kind::File(content(found, options.changed).map_err(text)?),
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => {
            Kind::Symlink(Target::new(found.target.clone().unwrap_or_default()).map_err(text)?)
        }
        FileKind::Fifo => Kind::Fifo,
        FileKind::Socket => return Err("it is a socket".to_owned()),
        FileKind::CharacterDevice(major, minor) => Kind::CharacterDevice(device(major, minor)?),
        FileKind::BlockDevice(major, minor) => Kind::BlockDevice(device(major, minor)?),
    };
    Ok(Inode {
        kind,
        mode: Mode::new(seen.mode).map_err(text)?,
        mtime: Time::new(seen.mtime.seconds, seen.mtime.nanoseconds).map_err(text)?,
        user: Owner::new(seen.user, accounts.name(Account::User, seen.user)).map_err(text)?,
        group: Owner::new(seen.group, accounts.name(Account::Group, seen.group)).map_err(text)?,
        xattrs: xattrs(found, options, accounts).map_err(text)?,
    })
}

fn xattrs(found: &Found, options: &SourceOptions, accounts: &mut Accounts) -> Result<Xattrs, EntryError> {
    let mut xattrs = Xattrs::default();
    for (name, value) in found.xattrs.iter().filter(|(name, _)| !acl::is_wire_only(name)) {
        match options.acls.then(|| acl::encode_names(name, value, accounts)).flatten() {
            Some((name, value)) => xattrs.insert(name, &value)?,
            None => xattrs.insert(name, value)?,
        }
    }
    Ok(xattrs)
}

fn content(found: &Found, send_ctime: bool) -> Result<Content, EntryError> {
    let seen = &found.seen;
    let content = match &found.data {
        None => Content::dense(seen.size),
        Some(data) => {
            let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end));
            Content::from_extents(seen.size, extents)
        }
    }?;
    let is_wire_only = send_ctime && seen.size >= CTIME_MIN_SIZE;
    let changed = is_wire_only.then(|| Time::new(seen.ctime.seconds, seen.ctime.nanoseconds)).transpose()?;
    Ok(content.with_ctime(changed))
}

/// The blocks of a file that have data, if its entry says of some that they do, and they do not.
fn blocks_with_data(content: &Content, found: &Found) -> Option<ExtentSet> {
    let data = found.data.as_ref().filter(|_| content.may_omit_holes())?;
    let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end.min(content.size())));
    let mut blocks = ExtentSet::default();
    in_blocks(extents, content.size()).for_each(|block| blocks.insert(block));
    Some(blocks)
}
