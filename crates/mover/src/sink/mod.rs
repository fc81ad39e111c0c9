//! The side where files go: decides what it needs, checks what comes, and gives files their names when they are whole.

mod arrive;
mod asked;
mod cases;
mod compare;
mod early;
mod errands;
mod finish;
mod fresh;
mod judge;
mod notes;
mod sums;

use crate::accounts::{Account, Accounts, Lookup};
use crate::acl;
use crate::drive::{Command, Core, Talk};
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Object};
use crate::extent::ExtentSet;
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::name::Name;
pub use crate::ours::JOURNAL;
use crate::report::{reason, Action, Ended, Report, Totals};
use crate::wire::{About, Did, End, Frame, Problem, Reason, Side, TransferId, WireError};
pub use asked::Asked;
use early::Early;
use errands::Errands;
use finish::Finish;
use fresh::Fresh;
pub use notes::SERIES;
use notes::{Distrusts, Notes};
use numaio_machine::port::{
    Attributes, Details, Event, Fault, FileKind, FilePath, Found, Journal as Opened, Names, Operation,
    Outcome, Seen, Stamp, Ticket, Why, BLOCK,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;
use sums::Hashes;

/// Most entries that are not decided or not complete; a source keeps to less.
const MOST: usize = 4 * crate::source::WINDOW as usize;
/// How often a journal is asked for that another try of the same command has, which ends when all is written that came to it...
const ASK_EACH: Duration = Duration::from_millis(500);
/// ...and for how long: it may take so long to notice that its connection is gone.
const ASK_FOR: Duration = Duration::from_secs(45);
/// Bytes of frames that wait for more of them to be sent together.
const MOST_UNTOLD: usize = 64 << 10;

/// Which attributes are set as they are at the source. Times always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
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
pub enum Sync {
    /// By the kernel, when it likes. A crash of the machine may damage what was moved shortly before.
    None,
    /// Before a file gets its name, and all at the end.
    File,
    /// All at the end.
    End,
}

/// Who is not root gives files of his own the groups that he is in, and no others; and no extended attributes that are root's.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// The user's number.
    pub user: u32,
    /// Numbers of the groups that he is in.
    pub groups: Vec<u32>,
    /// Whether he writes for others, as a daemon does: then nothing gets set-ID bits, and these count for nothing.
    pub for_others: bool,
}

/// Directories on the machine of the sink that are read, by volume and inode.
#[derive(Debug, Clone, Default)]
pub struct Spared {
    /// Those where reading begins.
    pub read: Vec<(u64, u64)>,
    /// Those in which these lie.
    pub above: Vec<(u64, u64)>,
    /// Whether one of them lies in the destination.
    pub is_inside: bool,
}

impl Spared {
    /// Whether it is read.
    fn is_read(&self, seen: &Seen) -> bool {
        seen.kind == FileKind::Directory && self.read.contains(&(seen.volume, seen.inode))
    }

    /// Whether it is read, or something in it is.
    fn holds(&self, seen: &Seen) -> bool {
        let is_above = seen.kind == FileKind::Directory && self.above.contains(&(seen.volume, seen.inode));
        is_above || self.is_read(seen)
    }
}

/// What the sink does.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// Which attributes to keep.
    pub keep: Keep,
    /// Who writes here.
    pub own: Own,
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
    pub accounts: Option<Lookup>,
    /// Sizes in bytes of regular files that are moved; others are left alone.
    pub sizes: RangeInclusive<u64>,
    /// Remove what the source does not have.
    pub delete: bool,
    /// What the source leaves out is not removed.
    pub filter: Filter,
    /// What the user asked for: anything else that a source sends ends the transfer. None takes what comes.
    pub asked: Option<Asked>,
    /// Change nothing, and say what would be changed.
    pub rehearse: bool,
    /// Tell the source of everything that is made, changed or removed: its user wants to hear of it.
    pub tell: bool,
    /// Partial files that were written to since then may be another transfer's, and are not removed as what the source does not have.
    pub spared_since: Stamp,
    /// Which names are one at the destination.
    pub names: Names,
    /// What is not removed.
    pub spared: Spared,
    /// Whether the destination itself was made for this transfer.
    pub made: bool,
    /// What a file is called here that is all the source has.
    pub alias: Option<Name>,
    /// Write to the files themselves, not beside them.
    pub in_place: bool,
    /// When data is made durable.
    pub sync: Sync,
    /// How the source hashes.
    pub hash: HashKind,
    /// Whether packed data is taken.
    pub packed: bool,
    /// Whether ACLs with names of users and groups are taken.
    pub acls: bool,
    /// Whether data of files is taken that the source was not asked for yet. Then nothing is continued, and no hash asked for.
    pub unasked: bool,
    /// Whether a try of the same command was lost before this one, which may still have the journal.
    pub again: bool,
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
    was_to_be: Option<(u64, Option<Stamp>)>,
}

/// Entries of a batch, in the order of the source.
#[derive(Debug)]
struct Work {
    first: FileNumber,
    entries: Vec<Entry>,
    /// Which have names that others had before, for the destination.
    seconds: Vec<bool>,
    /// Which of those that are no hard links lie in directories where nothing is yet, and are not looked at.
    fresh: Vec<bool>,
    /// What is in their places; none before the look is over.
    found: Option<Vec<Result<Option<Found>, Fault>>>,
    /// None before the journal is known: who has it until then may still be finishing files here.
    look: Option<Ticket>,
}

/// The journal, before anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Asked(Ticket),
    /// Somebody else has it; it is asked for again then, as soon as it is known when that is.
    Waits(Option<Duration>),
    Over,
}

/// The sink of a transfer.
#[derive(Debug)]
pub struct Sink<B> {
    options: SinkOptions,
    talk: Talk<B>,
    opening: Opening,
    /// When a journal is asked for no more that somebody else has.
    ask_until: Option<Duration>,
    /// The number that the next entry must have.
    next: u64,
    works: VecDeque<Work>,
    fresh: Fresh,
    /// Bytes of files that were as they should be.
    there: u64,
    /// What is in the way of the first work is being removed.
    clearing: bool,
    /// Directories of the first work are being made.
    making: Option<Ticket>,
    preparing: BTreeMap<Ticket, judge::Prepared>,
    incoming: HashMap<u64, Incoming>,
    /// Their names: what is written to is that of one of them.
    taken: HashSet<Name>,
    early: Early<B>,
    writes: BTreeMap<Ticket, Vec<arrive::Written>>,
    errands: Errands,
    hashes: Hashes,
    accounts: Accounts,
    notes: Notes,
    finish: Finish,
    /// What was done and is not told yet, as frames.
    did: Vec<u8>,
    /// Told by the source at its end.
    source_end: Option<End>,
    /// Why it is given up; it ends when nothing is under way any more.
    stopping: bool,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// A sink at its beginning.
    pub fn new(options: SinkOptions) -> Self {
        let mut talk = Talk::new(Side::Sink, options.transfer);
        let distrusts = Distrusts(options.checksum || options.ignore_times);
        // A rehearsal leaves the journal to who goes on with it.
        let opening = match options.rehearse {
            true => Opening::Over,
            false => Opening::Asked(talk.submit(open())),
        };
        Self {
            talk,
            opening,
            ask_until: None,
            next: 0,
            works: VecDeque::new(),
            fresh: Fresh::default(),
            making: None,
            preparing: BTreeMap::new(),
            incoming: HashMap::new(),
            taken: HashSet::new(),
            early: Early::default(),
            writes: BTreeMap::new(),
            there: 0,
            clearing: false,
            errands: Errands::default(),
            hashes: Hashes::default(),
            accounts: Accounts::new(options.accounts),
            notes: Notes::new(options.transfer, options.sync, distrusts),
            finish: Finish::new(options.names),
            did: Vec::new(),
            source_end: None,
            stopping: false,
            options,
        }
    }

    fn received(&mut self, frames: &[u8], data: Option<(B, usize)>) -> Result<(), WireError> {
        let (mut rest, mut last) = (frames, None);
        while let Some(frame) = self.talk.hear(&mut rest)? {
            last.replace(frame).map_or(Ok(()), |before| self.frame(before, None))?;
        }
        self.talk.heard(data.as_ref().map(|(_, length)| *length))?;
        last.map_or(Ok(()), |frame| self.frame(frame, data.map(|(buffer, _)| buffer)))
    }

    fn frame(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        if self.source_end.is_some() || self.has_early_end() {
            return Err(WireError::AfterEnd);
        }
        match self.options.unasked {
            true => self.take_or_wait(frame, data),
            false => self.take(frame, data),
        }
    }

    fn take(&mut self, frame: Frame, data: Option<B>) -> Result<(), WireError> {
        match frame {
            Frame::Batch(batch) => {
                let (first, entries) = batch.into_parts();
                self.take_batch(first, entries)
            }
            Frame::Chunk(chunk) => match data {
                Some(data) => self.chunk(&chunk, data),
                None => Err(WireError::Value("a chunk without data")),
            },
            Frame::Holes(holes) => self.holes(&holes),
            Frame::Done(done) => self.file_done(done),
            Frame::Sum(sum) => self.told_sum(sum),
            Frame::Problem(problem) => {
                self.told(problem);
                Ok(())
            }
            Frame::End(end) => {
                if !self.has_answered_all() || !self.is_all_there() {
                    return Err(WireError::Value("an end before all data"));
                }
                self.source_end = Some(end);
                Ok(())
            }
            Frame::Wants(_) | Frame::There(_) | Frame::Did(_) => {
                Err(WireError::Value("a frame that a source does not send"))
            }
        }
    }

    fn take_batch(&mut self, first: FileNumber, entries: Vec<Entry>) -> Result<(), WireError> {
        let waiting: usize = self.works.iter().map(|work| work.entries.len()).sum();
        if first.get() != self.next {
            return Err(WireError::Value("the number of a batch's first entry"));
        }
        if waiting + self.incoming.len() > MOST {
            return Err(WireError::Value("a flood of entries"));
        }
        self.refuse_others(&entries)?;
        self.next += entries.len() as u64;
        self.talk.totals.entries += entries.len() as u64;
        let mut entries = entries;
        if let Some(alias) = &self.options.alias {
            // The root is the directory above what the user named: nothing else in it is a source's business.
            if self.next > 1 || !entries.iter().all(is_one_file) {
                return Err(WireError::Value("more than the one file that it told of"));
            }
            entries.iter_mut().for_each(|entry| entry.name = alias.clone());
        }
        for entry in &mut entries {
            if let Object::New(inode) = &mut entry.object {
                self.accounts.here(Account::User, &mut inode.user);
                self.accounts.here(Account::Group, &mut inode.group);
                match self.options.acls {
                    true => acl::kept(&mut inode.xattrs, &mut self.accounts)?,
                    false => acl::none_said(&inode.xattrs)?,
                }
            }
        }
        let seconds = entries.iter().map(|entry| self.finish.cases.is_second(&entry.name)).collect();
        let new = || entries.iter().filter(|entry| matches!(entry.object, Object::New(_)));
        let fresh: Vec<bool> = new().map(|entry| self.fresh.holds(&entry.name)).collect();
        self.works.push_back(Work { first, entries, seconds, fresh, found: None, look: None });
        Ok(())
    }

    /// Looks at what is in the places of entries that were not looked for.
    fn look_on(&mut self) {
        let details = Details { xattrs: self.options.keep.xattrs, ..Details::default() };
        // Another host is not told where links lead here.
        let follows = !self.options.spared.read.is_empty();
        for work in self.works.iter_mut().filter(|work| work.look.is_none()) {
            let new = work.entries.iter().filter_map(|entry| match &entry.object {
                Object::New(inode) => Some((&entry.name, &inode.kind)),
                Object::HardLink(_) => None,
            });
            let (mut at, mut links) = (Vec::new(), Vec::new());
            for ((name, kind), _) in new.zip(&work.fresh).filter(|(_, fresh)| !**fresh) {
                match kind {
                    Kind::Symlink(target) if follows => links.push((at.len(), target.as_bytes().into())),
                    _ => {}
                }
                at.push(FilePath::new(0, name.as_bytes()));
            }
            work.look = Some(self.talk.submit(Operation::Look { at, details, links }));
        }
    }

    /// Nothing comes that nobody asked for, under the names that it has at the source.
    fn refuse_others(&mut self, entries: &[Entry]) -> Result<(), WireError> {
        let Some(asked) = &mut self.options.asked else { return Ok(()) };
        match entries.iter().find(|entry| !asked.takes(entry, &self.options.filter)) {
            Some(entry) => Err(WireError::NotAskedFor(entry.name.clone())),
            None => Ok(()),
        }
    }

    fn told(&mut self, problem: Problem) {
        match &problem.about {
            About::Transfer => {
                self.stopping = true;
            }
            About::File(number, _) => {
                self.hashes.fail(*number);
                self.drop_file(*number);
            }
            About::Name(_) => self.finish.incomplete = true,
        }
        self.talk.note(problem);
    }

    /// A file failed here: the source hears of it, and the others go on.
    fn fail(&mut self, number: FileNumber, name: &Name, fault: &Fault) {
        self.talk.problem(About::File(number, name.clone()), reason(fault.why), &fault.text);
        if !self.drop_file(number) {
            self.finish.failed(name, None);
        }
    }

    /// A file is whole, or failed: its name is free.
    fn no_longer_awaited(&mut self, number: u64) -> Option<Incoming> {
        self.incoming.remove(&number).inspect(|file| _ = self.taken.remove(&file.name))
    }

    /// Forgets what came of a file; false if none is awaited.
    fn drop_file(&mut self, number: FileNumber) -> bool {
        let Some(file) = self.no_longer_awaited(number.get()) else { return false };
        self.finish.failed(&file.name, file.was_to_be);
        // What is under way may still write to it: it is removed when that is over.
        if !file.in_place {
            self.notes.forget(&file.name, file.at);
        }
        true
    }

    /// Something was made, changed or removed; or it would be, in a rehearsal.
    fn did(&mut self, name: Name, action: Action, bytes: u64) {
        match action {
            Action::Removed => self.talk.totals.removed += 1,
            _ => self.talk.totals.moved += 1,
        }
        let did = Did { name, action, bytes };
        if self.options.tell {
            Frame::Did(did.clone()).encode(&mut self.did);
            if self.did.len() > MOST_UNTOLD {
                self.tell_on();
            }
        }
        self.talk.reports.push(Report::Did(did));
    }

    /// Tells the source what was done, many things at once.
    fn tell_on(&mut self) {
        if !self.did.is_empty() {
            let frames = std::mem::take(&mut self.did);
            self.talk.send_bytes(frames);
        }
    }

    fn give_up(&mut self, reason: Reason, words: &str) {
        if !self.stopping {
            self.talk.problem(About::Transfer, reason, words);
            self.stopping = true;
        }
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome<B>) {
        if self.opening == Opening::Asked(ticket) {
            self.opening = Opening::Over;
            return self.opened(outcome);
        }
        match outcome {
            Outcome::Looked(found) => {
                if let Some((_, links)) = self.finish.looking.take_if(|(look, _)| *look == ticket) {
                    self.link(links, found);
                } else if let Some(work) = self.works.iter_mut().find(|work| work.look == Some(ticket)) {
                    let mut found = found.into_iter();
                    let fresh = std::mem::take(&mut work.fresh).into_iter();
                    let all =
                        fresh.map(|fresh| if fresh { Ok(None) } else { found.next().unwrap_or(Ok(None)) });
                    work.found = Some(all.collect());
                    if self.options.checksum && !self.options.unasked {
                        self.compare(ticket);
                    }
                }
            }
            Outcome::Listed(listing) => self.listed(ticket, listing),
            Outcome::Each(results) => self.each(ticket, results),
            Outcome::Summed(outcome) => self.summed(ticket, outcome),
            Outcome::Read { .. } | Outcome::Opened(_) => {}
        }
    }

    fn each(&mut self, ticket: Ticket, results: Vec<Result<(), Fault>>) {
        if self.making == Some(ticket) {
            self.making = None;
            return self.made(results);
        }
        if let Some(prepared) = self.preparing.remove(&ticket) {
            return self.prepared(prepared, results);
        }
        if let Some(written) = self.writes.remove(&ticket) {
            return written.into_iter().zip(results).for_each(|(item, result)| self.written(item, result));
        }
        if let Some(failed) = self.notes.done(ticket, &results) {
            return self.not_durable(failed);
        }
        for (errand, result) in self.errands.done(ticket, results) {
            self.errand_done(errand, result);
        }
    }

    /// Data of these files could not be made durable before it was to be noted.
    fn not_durable(&mut self, failed: Vec<(Name, Fault)>) {
        for (name, fault) in failed {
            let is_it = |(_, file): &(&u64, &Incoming)| file.name == name;
            let number = self.incoming.iter().find(is_it).map(|(&number, _)| number);
            match number.and_then(|number| FileNumber::new(number).ok()) {
                // It has its name, and its mode is not for us to read; or it failed already, and is gone.
                _ if matches!(fault.why, Why::NotFound | Why::Permission) => {}
                Some(number) => self.fail(number, &name, &fault),
                None => self.talk.problem(About::Name(name), reason(fault.why), &fault.text),
            }
        }
    }

    fn opened(&mut self, outcome: Outcome<B>) {
        match outcome {
            Outcome::Opened(Ok(Opened::Ours(bytes))) => self.notes.found(&bytes),
            Outcome::Opened(Ok(Opened::Absent)) => {}
            Outcome::Opened(Ok(Opened::Taken)) => {
                self.spare_all();
                match self.options.again {
                    true => self.opening = Opening::Waits(None),
                    false => self.notes.go_without(),
                }
            }
            Outcome::Opened(Err(fault)) => {
                // Another user's, who would not let go of it for us.
                if matches!(fault.why, Why::Exists | Why::Permission) {
                    self.spare_all();
                }
                // An absent root and the like are told by what cannot be made there.
                self.notes.go_without();
            }
            _ => self.notes.go_without(),
        }
    }

    /// Another transfer may be under way, and be in no hurry with what it has begun.
    fn spare_all(&mut self) {
        self.options.spared_since = Stamp { seconds: i64::MIN, nanoseconds: 0 };
    }

    /// Asks for the journal again if it is time, or goes without it if that was done for long enough.
    fn ask_again(&mut self, now: Duration) {
        let Opening::Waits(at) = &mut self.opening else { return };
        let until = *self.ask_until.get_or_insert(now + ASK_FOR);
        if now >= until {
            self.opening = Opening::Over;
            self.notes.go_without();
        } else if now >= *at.get_or_insert(now + ASK_EACH) {
            self.opening = Opening::Asked(self.talk.submit(open()));
        }
    }

    fn is_quiet(&self) -> bool {
        let working = !self.preparing.is_empty() || !self.writes.is_empty() || !self.errands.is_empty();
        let working = working || !self.hashes.is_idle();
        !working && self.making.is_none() && self.finish.is_quiet()
    }

    /// Whether the source knows what is needed of every entry.
    fn has_answered_all(&self) -> bool {
        let waiting =
            !self.works.is_empty() || !self.finish.to_begin.is_empty() || self.finish.held.is_some();
        !waiting && self.preparing.is_empty()
    }

    /// Whether an entry is known and was decided.
    fn is_decided(&self, number: u64) -> bool {
        number < self.works.front().map_or(self.next, |work| work.first.get())
    }

    fn end_if_stopped(&mut self) {
        self.hashes.stop();
        self.early.clear();
        let is_opening = matches!(self.opening, Opening::Asked(_));
        if !self.stopping || self.talk.ended.is_some() || !self.is_quiet() || is_opening {
            return;
        }
        // No later run would know what was begun.
        if !self.notes.is_kept() {
            let is_begun = |file: &Incoming| !file.in_place && file.content.size() > BLOCK as u64;
            for (_, file) in self.incoming.drain().filter(|(_, file)| is_begun(file)) {
                self.notes.forget(&file.name, file.at);
            }
        }
        if let Some(operation) = self.notes.last() {
            let ticket = self.talk.submit(operation);
            self.notes.began(ticket);
        }
        if !self.notes.is_busy() {
            self.talk.ended = Some(Ended::Failed);
        }
    }

    fn note_on(&mut self) {
        if self.opening != Opening::Over {
            return;
        }
        while let Some(operation) = self.notes.next() {
            let ticket = self.talk.submit(operation);
            self.notes.began(ticket);
        }
    }
}

impl<B: AsRef<[u8]>> Core<B> for Sink<B> {
    fn handle(&mut self, event: Event<B>) {
        match event {
            Event::Done(ticket, outcome) => self.done(ticket, outcome),
            Event::Received(packet) if !self.stopping && self.talk.ended.is_none() => {
                if let Err(error) = self.received(&packet.frames, packet.data) {
                    self.give_up(Reason::Protocol, &error.to_string());
                }
            }
            Event::Received(_) | Event::Sent(_) => {}
            Event::Closed(why) => {
                // After the end of the source nothing more comes from there.
                if self.talk.ended.is_none() && self.source_end.is_none() {
                    self.give_up(Reason::Other, &format!("the connection to the source is gone: {why}"));
                }
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Option<Command<B>> {
        if self.talk.commands.is_empty() && self.talk.ended.is_none() {
            self.ask_again(now);
            if self.stopping {
                self.end_if_stopped();
            } else if self.opening == Opening::Over {
                self.look_on();
                self.work_on();
                if let Err(error) = self.take_early() {
                    self.give_up(Reason::Protocol, &error.to_string());
                }
                self.sum_on();
                self.note_on();
                self.finish_on();
            }
            self.tell_on();
        }
        self.talk.commands.pop_front()
    }

    fn wake(&self) -> Option<Duration> {
        match self.opening {
            Opening::Waits(at) => at,
            _ => None,
        }
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
        let Totals { bytes, resumed, moved, unchanged, .. } = self.talk.totals;
        [bytes, resumed, moved, unchanged].into_iter().fold(self.there, u64::saturating_add)
    }
}

fn open<B>() -> Operation<B> {
    Operation::Open { journal: FilePath::new(0, JOURNAL), most: notes::MOST }
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
