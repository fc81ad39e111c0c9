//! The side where the files are: scans, tells of entries, and sends what the sink wants.

mod index;
mod links;
mod placing;
mod reading;
mod scan;

use crate::accounts::{Account, Accounts, Lookup};
use crate::acl;
use crate::chunk::{Cutter, Job, Policy, PolicyError};
use crate::drive::{Command, Core, Talk};
use crate::entry::{
    Content, DeviceNumber, Entry, EntryError, FileNumber, Inode, Kind, Mode, Object, Owner, Target, Time,
    Xattrs, CHANGED_FROM, MAX_EXTENTS,
};
use crate::extent::{Extent, ExtentSet};
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::name::Name;
use crate::packing::{Compress, Packer, Tried};
use crate::report::{reason, Action, Ended, Report, Totals};
use crate::sums::Sums;
use crate::wire::{
    About, BatchEncoder, End, Frame, Holes, Needed, Problem, Reason, Side, Sum, TransferId, Want, WireError,
};
use links::Links;
use numaio_machine::port::{
    Event, Fault, FileKind, FilePath, Found, Identity, Outcome, Seen, Summing, Ticket, BLOCK,
};
use placing::Placing;
use reading::Reading;
use scan::{Before, Met, Scan};
use std::collections::HashMap;
use std::time::Duration;

/// Most entries that the sink did not answer yet, or whose data was not sent yet.
pub const WINDOW: u64 = 16_384;
/// Entries of a batch that is sent though there is room for more.
const BATCH: usize = 256;

/// Where a scan begins: see [`crate::filter::Origin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Which root of the port.
    pub root: u32,
    /// The one thing in it that is moved; none if all of the directory's content is.
    pub only: Option<Name>,
    /// Whether what a directory holds is moved too, if anything is.
    pub enter: bool,
    /// Whether the directories above it are moved first, without what they hold.
    pub way: bool,
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
    pub except: Option<(u64, u64)>,
    /// How to hash.
    pub hash: HashKind,
    /// How to cut files into pieces.
    pub policy: Policy,
    /// Operations that read, at a time.
    pub reads: usize,
    /// Files lie on a disk with a head: they are read in the order in which they lie there, as far as it is known,
    /// not in that of their inodes.
    pub by_address: bool,
    /// Most bytes of data a second, as they go to the sink.
    pub limit: Option<u64>,
    /// Whether data is packed for its way. The sink must take packed data, unless it is [`Compress::None`].
    pub compress: Compress,
    /// Whether files are sent as soon as the sink was told of them: it has next to nothing of them, and takes them.
    pub unasked: bool,
    /// Whether the sink takes holes that are said apart, of files that have too many.
    pub holes: bool,
    /// Whether files can have further names at the sink; else each name is a file there.
    pub links: bool,
    /// Whether the sink takes ACLs with names of users and groups; else they go with numbers alone.
    pub acls: bool,
    /// Whether the sink takes it that it is said when large files were last changed.
    pub changed: bool,
    /// How names of users and groups are looked up; none leaves them out.
    pub accounts: Option<Lookup>,
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
    summed: bool,
    /// What is known of packing it, if it has many blocks.
    tried: Tried,
}

impl File {
    /// Wants all of it, or some of it, to be sent in whole blocks, and tells which of them are holes; none if there is no byte of that.
    fn begin(&mut self, number: FileNumber, extents: Option<&Vec<Extent>>) -> Option<(Job, Vec<Extent>)> {
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
        let job = Job::rest(number, self.identity.inode, &blocks);
        self.wanted = Some(job.bytes() + self.sent).filter(|bytes| *bytes > 0);
        self.wanted.map(|_| (job, holes))
    }
}

/// The source of a transfer.
#[derive(Debug)]
pub struct Source<B> {
    options: SourceOptions,
    talk: Talk<B>,
    scan: Scan,
    batch: BatchEncoder,
    in_batch: usize,
    next: FileNumber,
    answered: u64,
    /// Of how many files the sink asked for the hash.
    asked: u64,
    /// Bytes of files that the sink did not want.
    there: u64,
    files: HashMap<u64, File>,
    links: Links,
    cutter: Cutter,
    placing: Placing,
    reading: Reading,
    /// When it was polled last.
    now: Duration,
    packer: Packer,
    sums: Sums<FileNumber>,
    accounts: Accounts,
    said_end: bool,
}

impl<B: AsRef<[u8]>> Source<B> {
    /// A source at its beginning.
    ///
    /// # Errors
    /// The policy is out of bounds.
    pub fn new(options: SourceOptions) -> Result<Self, PolicyError> {
        let first = FileNumber::FIRST;
        Ok(Self {
            talk: Talk::new(Side::Source, options.transfer),
            scan: Scan::new(&options),
            batch: BatchEncoder::new(first),
            in_batch: 0,
            next: first,
            answered: 0,
            asked: 0,
            there: 0,
            files: HashMap::new(),
            links: Links::default(),
            cutter: Cutter::new(options.policy.clone())?,
            placing: Placing::default(),
            reading: Reading::new(&options),
            now: Duration::ZERO,
            packer: Packer::new(options.compress, options.limit),
            sums: Sums::default(),
            accounts: Accounts::new(options.accounts),
            said_end: false,
            options,
        })
    }

    fn meet(&mut self, met: Met) {
        let Met { path, name, enter, found } = met;
        let found = match found {
            Ok(found) => found,
            Err(fault) => return self.talk.problem(About::Name(name), reason(fault.why), &fault.text),
        };
        let is_directory = found.seen.kind == FileKind::Directory;
        // Nothing is behind a socket without its server.
        if found.seen.kind == FileKind::Socket || self.is_destination(&name, enter, &found.seen) {
            return;
        }
        // What is on the way of a listed name is not asked for by itself: so does rsync.
        if enter && !self.options.filter.takes(&name, is_directory) {
            return;
        }
        if !enter && !is_directory {
            // Nothing is below a file, which is told of the name.
            if found.seen.kind == FileKind::Symlink {
                self.leave_out(name, "a symbolic link on the way to a listed name is not followed");
            }
            return;
        }
        if is_directory && !self.options.recursive && !self.options.listed {
            return self.leave_out(name, "it is a directory: add -r or -a");
        }
        if enter && found.hides {
            return self.leave_out(name, "it has extended attributes that may not be read");
        }
        match self.scan.meet(&name, is_directory) {
            Before::Nothing => {}
            // The directories of two origins are merged.
            Before::Directory if is_directory && enter => return self.scan.enter(path, name),
            Before::Other if is_directory && enter => {
                return self.leave_out(name, "an earlier source has something else of this name");
            }
            Before::Directory | Before::Other => return,
        }
        let inode = match inode(&found, &self.options, &mut self.accounts) {
            Ok(inode) => inode,
            Err(words) => return self.leave_out(name, &words),
        };
        // Only of what is told once further names are links to it.
        if let Some(object) = self.as_link(&name, &found) {
            return self.tell(Entry { name, object });
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
                summed: false,
                tried: Tried::default(),
            };
            self.files.insert(self.next.get(), file);
        }
        self.tell(Entry { name, object: Object::New(inode) });
    }

    /// Whether it is the destination, which is not moved into itself: a source that is it is told, unless a rule leaves it out, and below
    /// one it is passed over.
    fn is_destination(&mut self, name: &Name, enter: bool, seen: &Seen) -> bool {
        let is_it = self.options.except == Some((seen.volume, seen.inode)) && !name.is_root();
        let is_source = || self.options.origins.iter().any(|origin| origin.only.as_ref() == Some(name));
        let is_directory = enter && seen.kind == FileKind::Directory;
        if is_it && is_directory && is_source() && self.options.filter.takes(name, true) {
            self.leave_out(name.clone(), "it is the destination itself, which is not moved into itself");
        }
        is_it
    }

    fn leave_out(&mut self, name: Name, words: &str) {
        self.talk.problem(About::Name(name), Reason::Unsupported, words);
    }

    /// Whether it is a further name of a file whose first name was sent.
    fn as_link(&mut self, name: &Name, found: &Found) -> Option<Object> {
        let seen = &found.seen;
        if !self.options.links || seen.links < 2 || seen.kind == FileKind::Directory {
            return None;
        }
        self.links.first(seen, name).map(Object::HardLink)
    }

    fn tell(&mut self, entry: Entry) {
        for _ in 0..2 {
            match self.batch.push(&entry) {
                Ok(true) => {
                    self.in_batch += 1;
                    self.talk.totals.entries += 1;
                    match FileNumber::new(self.next.get() + 1) {
                        Ok(next) => self.next = next,
                        Err(error) => self.give_up(Reason::Other, &error.to_string()),
                    }
                    return;
                }
                Ok(false) => self.send_batch(),
                Err(error) => {
                    self.files.remove(&self.next.get());
                    return self.talk.problem(
                        About::Name(entry.name),
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
            Ok(_) => self.talk.send_bytes(frames),
            Err(error) => self.give_up(Reason::Other, &error.to_string()),
        }
        let told = self.next.get() - std::mem::take(&mut self.in_batch) as u64..self.next.get();
        if self.options.unasked {
            told.for_each(|number| self.begin_unasked(number));
        }
    }

    fn want(&mut self, want: Want) -> Result<(), WireError> {
        let last = want.first.get().saturating_add(want.count);
        // Of each file it asks once, so that both bound how often what follows is gone through.
        let count = if want.what == Needed::Sum { &mut self.asked } else { &mut self.answered };
        *count = count.saturating_add(want.count);
        if last.max(self.answered).max(self.asked) > self.next.get() - self.in_batch as u64 {
            return Err(WireError::Value("an answer about no entry"));
        }
        for number in want.first.get()..last {
            self.note_there(number, &want.what);
            match &want.what {
                Needed::Nothing => self.leave(number),
                // It was begun when the sink was told of it.
                Needed::All if self.options.unasked => {}
                Needed::All => self.begin(number, None)?,
                Needed::Some(extents) => self.begin(number, Some(extents))?,
                Needed::Sum => self.sum(number)?,
            }
        }
        Ok(())
    }

    /// Begins to hash a file.
    fn sum(&mut self, number: u64) -> Result<(), WireError> {
        // It may have failed here while it was asked for.
        let Some(file) = self.files.get_mut(&number) else { return Ok(()) };
        if file.wanted.is_some() || std::mem::replace(&mut file.summed, true) {
            return Err(WireError::Value("a hash that was not to be asked for"));
        }
        self.sums.push(FileNumber::new(number)?, file.path.clone(), Some(file.identity));
        Ok(())
    }

    fn summed(&mut self, ticket: Ticket, outcome: Result<Summing, Fault>) {
        match self.sums.done(ticket, outcome) {
            Some((file, Ok(digest))) => self.talk.send(&Frame::Sum(Sum { file, digest })),
            Some((file, Err(fault))) => self.fail(file, &fault),
            None => {}
        }
    }

    /// Notes what is at the sink already.
    fn note_there(&mut self, number: u64, needed: &Needed) {
        let Some(file) = self.files.get(&number) else { return };
        let wanted = match needed {
            Needed::Nothing => 0,
            Needed::Some(extents) => extents.iter().map(|extent| extent.length()).sum(),
            Needed::All | Needed::Sum => return,
        };
        self.there = self.there.saturating_add(file.content.size().saturating_sub(wanted));
    }

    /// Nothing of a file is needed.
    fn leave(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            let unsent = file.wanted.map_or(0, |wanted| wanted - file.sent);
            self.talk.totals.size = self.talk.totals.size.saturating_sub(unsent);
        }
    }

    /// Begins to send a file.
    fn begin(&mut self, number: u64, extents: Option<&Vec<Extent>>) -> Result<(), WireError> {
        let file = self.files.get_mut(&number).filter(|file| file.wanted.is_none());
        let file = file.ok_or(WireError::Value("an answer about no file"))?;
        let begun = file.begin(FileNumber::new(number)?, extents);
        self.send_file(begun.ok_or(WireError::Value("an answer that wants no byte"))?);
        Ok(())
    }

    /// The same of one that the sink was just told of. One without data needs no more than that.
    fn begin_unasked(&mut self, number: u64) {
        let (Some(file), Ok(told)) = (self.files.get_mut(&number), FileNumber::new(number)) else { return };
        match file.begin(told, None) {
            Some(begun) => self.send_file(begun),
            None => drop(self.files.remove(&number)),
        }
    }

    /// Has a file read and sent, but for its holes.
    fn send_file(&mut self, (job, holes): (Job, Vec<Extent>)) {
        for some in holes.chunks(MAX_EXTENTS) {
            if let Ok(holes) = Holes::new(job.file(), some.to_vec()) {
                self.talk.send(&Frame::Holes(holes));
            }
        }
        self.talk.totals.size = self.talk.totals.size.saturating_add(job.bytes());
        match self.options.by_address && self.placing.pays() {
            _ if job.bytes() == 0 => self.all_sent(job.file()),
            true => self.placing.push(job),
            false => self.reading.push(&mut self.cutter, job),
        }
    }

    /// A file cannot be read as it should be: the others go on.
    fn fail(&mut self, number: FileNumber, fault: &Fault) {
        if let Some(file) = self.files.remove(&number.get()) {
            self.talk.problem(About::File(number, file.name), reason(fault.why), &fault.text);
        }
    }

    fn give_up(&mut self, reason: Reason, words: &str) {
        if self.talk.ended.is_none() {
            self.talk.problem(About::Transfer, reason, words);
            self.talk.ended = Some(Ended::Failed);
        }
    }

    fn received(&mut self, frames: &[u8], data: Option<usize>) -> Result<(), WireError> {
        let mut rest = frames;
        while let Some(frame) = self.talk.hear(&mut rest)? {
            match frame {
                Frame::Wants(wants) => wants.into_inner().into_iter().try_for_each(|want| self.want(want))?,
                Frame::Problem(problem) => self.told(problem),
                Frame::There(there) => self.talk.reports.push(Report::There(there)),
                Frame::Did(did) => {
                    // Until the end tells all: it may never come.
                    match did.action {
                        Action::Removed => self.talk.totals.removed += 1,
                        _ => self.talk.totals.moved += 1,
                    }
                    self.talk.reports.push(Report::Did(did));
                }
                Frame::End(end) if self.said_end => {
                    let End { entries: moved, bytes, size, resumed, unchanged, removed, .. } = end;
                    let totals = self.talk.totals;
                    self.talk.totals = Totals { moved, bytes, size, resumed, unchanged, removed, ..totals };
                    self.talk.ended = Some(Ended::Done);
                }
                _ => return Err(WireError::Value("a frame that a sink does not send")),
            }
        }
        self.talk.heard(data)
    }

    fn told(&mut self, problem: Problem) {
        match &problem.about {
            About::Transfer => self.talk.ended = Some(Ended::Failed),
            About::File(number, _) => drop(self.files.remove(&number.get())),
            About::Name(_) => {}
        }
        self.talk.note(problem);
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        match outcome {
            Outcome::Listed(listing) => {
                self.scan.listed(ticket, listing).into_iter().for_each(|met| self.meet(met));
            }
            Outcome::Looked(found) if self.placed(ticket, &found) => {}
            Outcome::Looked(found) => {
                self.scan.looked(ticket, found).into_iter().for_each(|met| self.meet(met));
            }
            Outcome::Read { results, data, packed } => self.read(ticket, results, data, packed),
            Outcome::Summed(outcome) => self.summed(ticket, outcome),
            Outcome::Each(_) | Outcome::Opened(_) => {}
        }
    }

    /// Lists more if there is room for what will be met.
    fn scan_on(&mut self) {
        while self.files.len() as u64 + self.unanswered() + (self.scan.expected() as u64) <= WINDOW {
            let Some((operation, begun)) = self.scan.next() else { return };
            let ticket = self.talk.submit(operation);
            self.scan.began(ticket, begun);
        }
    }

    fn unanswered(&self) -> u64 {
        self.next.get() - self.answered
    }

    /// Entries that the sink was told of, and whose answers are waited for.
    fn awaited(&self) -> u64 {
        match self.options.unasked {
            true => 0,
            false => self.unanswered() - self.in_batch as u64,
        }
    }

    /// Sends the entries that wait, unless more come soon and the sink has enough to do.
    fn tell_on(&mut self) {
        let starving = self.reading.is_idle() && self.awaited() == 0;
        if self.in_batch > 0 && (self.in_batch >= BATCH || starving || self.scan.is_over()) {
            self.send_batch();
        }
    }

    fn end_if_done(&mut self) {
        let is_told = self.scan.is_over() && self.in_batch == 0;
        let is_sent = self.awaited() == 0 && self.files.is_empty() && self.reading.is_idle();
        // The time that the last bytes take under a limit passes, too: else whatever fits into one block has none.
        let is_sent = is_sent && self.reading.wake().is_none();
        let may_end = self.options.unasked || self.talk.heard_hello;
        if is_told && is_sent && may_end && !self.said_end {
            self.said_end = true;
            let totals = &self.talk.totals;
            let (entries, failed, bytes) = (totals.entries, totals.failed, totals.bytes);
            self.talk.send(&Frame::End(End { entries, failed, bytes, ..End::default() }));
        }
    }
}

impl<B: AsRef<[u8]>> Core<B> for Source<B> {
    fn handle(&mut self, event: Event<B>) {
        if self.talk.ended.is_some() {
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
            Event::Sent(bytes) => self.packer.way.went(bytes as u64),
            Event::Closed(why) => {
                self.give_up(Reason::Other, &format!("the connection to the destination is gone: {why}"))
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<Command<B>> {
        self.packer.way.look(now);
        self.now = now;
        if self.talk.commands.is_empty() && self.talk.ended.is_none() {
            self.scan_on();
            self.tell_on();
            self.sums.go_on(&mut self.talk);
            self.place_on();
            self.read_on(now);
            self.end_if_done();
        }
        self.talk.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        self.reading.wake()
    }

    fn stop(&mut self, reason: Reason, words: &str) {
        self.give_up(reason, words);
    }

    fn ended(&self) -> Option<&Ended> {
        self.talk.ended.as_ref().filter(|_| self.talk.commands.is_empty())
    }

    fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.talk.reports)
    }

    fn totals(&self) -> Totals {
        self.talk.totals
    }

    fn reached(&self) -> u64 {
        self.there.saturating_add(self.talk.totals.bytes).saturating_add(self.answered)
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
    let say = |error: EntryError| error.to_string();
    let seen = &found.seen;
    let device = |major, minor| match options.devices {
        true => DeviceNumber::new(major, minor).map_err(say),
        false => Err("it is a device, and devices are not moved".to_owned()),
    };
    let kind = match seen.kind {
        FileKind::File => Kind::File(content(found, options.changed).map_err(say)?),
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => {
            Kind::Symlink(Target::new(found.target.clone().unwrap_or_default()).map_err(say)?)
        }
        FileKind::Fifo => Kind::Fifo,
        FileKind::Socket => return Err("it is a socket".to_owned()),
        FileKind::CharacterDevice(major, minor) => Kind::CharacterDevice(device(major, minor)?),
        FileKind::BlockDevice(major, minor) => Kind::BlockDevice(device(major, minor)?),
    };
    Ok(Inode {
        kind,
        mode: Mode::new(seen.mode).map_err(say)?,
        mtime: Time::new(seen.mtime.seconds, seen.mtime.nanoseconds).map_err(say)?,
        user: Owner::new(seen.user, accounts.name(Account::User, seen.user)).map_err(say)?,
        group: Owner::new(seen.group, accounts.name(Account::Group, seen.group)).map_err(say)?,
        xattrs: xattrs(found, options, accounts).map_err(say)?,
    })
}

fn xattrs(found: &Found, options: &SourceOptions, accounts: &mut Accounts) -> Result<Xattrs, EntryError> {
    let mut xattrs = Xattrs::default();
    for (name, value) in found.xattrs.iter().filter(|(name, _)| !acl::is_said(name)) {
        match options.acls.then(|| acl::said(name, value, accounts)).flatten() {
            Some((name, value)) => xattrs.insert(name, &value)?,
            None => xattrs.insert(name, value)?,
        }
    }
    Ok(xattrs)
}

fn content(found: &Found, says_changed: bool) -> Result<Content, EntryError> {
    let seen = &found.seen;
    let content = match &found.data {
        None => Content::dense(seen.size),
        Some(data) => {
            let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end));
            Content::seen(seen.size, extents)
        }
    }?;
    let is_said = says_changed && seen.size >= CHANGED_FROM;
    let changed = is_said.then(|| Time::new(seen.ctime.seconds, seen.ctime.nanoseconds)).transpose()?;
    Ok(content.changed_at(changed))
}

/// The blocks of a file that have data, if its entry says of some that they do, and they do not.
fn blocks_with_data(content: &Content, found: &Found) -> Option<ExtentSet> {
    let data = found.data.as_ref().filter(|_| content.is_crowded())?;
    let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end.min(content.size())));
    let mut blocks = ExtentSet::default();
    in_blocks(extents, content.size()).for_each(|block| blocks.insert(block));
    Some(blocks)
}
