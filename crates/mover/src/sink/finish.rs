//! What is done when all data is there: hard links, removals, attributes of directories, durability.

use super::cases::Cases;
use super::errands::Errand;
use super::judge::{may_go, Held};
use super::notes::Close;
use super::{Sink, Sync, MOST};
use crate::entry::{Entry, Object};
use crate::name::Name;
use crate::name_set::NameSet;
use crate::ours::{is_ours, JOURNAL};
use crate::report::{Action, Ended, Totals};
use crate::wire::{About, End, EntryStore, Frame, Reason};
use numaio_machine::port::{
    Attributes, Details, Fault, FileKind, FilePath, Found, Listing, Making, Names, Object as Made, Operation,
    Seen, Stamp, Ticket, Why,
};
use std::collections::{HashMap, HashSet};

/// Names of one listing of a directory in which things may be removed.
const NAMES: usize = 512;

/// What is at a name.
type Looked = Result<Option<Found>, Fault>;

/// What becomes of a further name of a file.
enum Further {
    /// It is right, or to be left alone.
    Unchanged,
    /// It is not made, for this reason.
    Not(&'static str),
    Make,
}

/// Steps in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Linking,
    Removing,
    Closing,
    Adorning,
    Syncing,
    Over,
}

/// What is kept for the end, and how far the end is.
#[derive(Debug, Default)]
pub(super) struct Finish {
    phase: Phase,
    /// Something could not be read at the source: what is missing here may be there.
    pub incomplete: bool,
    /// Hard links.
    pub links: EntryStore,
    /// Directories with the attributes that they get.
    pub directories: EntryStore,
    /// Those of them that were made, and get what is left of the source's mode.
    pub masked: NameSet<6>,
    /// Those of them that were there with other attributes.
    pub adorned: NameSet<6>,
    /// Files that would be others, in a rehearsal: further names that they have would not be theirs any more.
    replaced: NameSet<6>,
    /// Names that failed, the first of them. Those of files of which data came, with the size and the time that they were to have.
    failed: HashMap<Name, Option<(u64, Option<Stamp>)>>,
    /// Whether there were more.
    failed_others: bool,
    /// Files that are left alone by their size.
    pub outsized: NameSet<6>,
    /// Those that are newer here.
    pub newer: NameSet<6>,
    /// Directories that were where further names of files are to be.
    cleared: HashSet<Name>,
    /// Work that waits for directories.
    pub held: Option<(Vec<Errand>, Held)>,
    /// Work that waits for the journal.
    pub to_begin: Vec<Held>,
    /// Which names are one at the destination.
    pub cases: Cases,
    /// Names that the source told, if what it did not tell is removed, as the destination knows them.
    told: NameSet<6>,
    /// Those that are directories.
    told_directories: NameSet<6>,
    /// Those of them that are a source, or lie in one.
    read: HashSet<Name>,
    removing: Option<Removing>,
    /// Whether a partial file stays that may be another transfer's, or may lie where nobody looked.
    spared: bool,
    /// Whether all partial files of others were removed.
    parts_are_gone: bool,
    listing: Option<(Ticket, Name)>,
    /// Links that are looked at.
    pub looking: Option<(Ticket, Vec<Entry>)>,
}

/// Directories in which things may be removed, the next one last.
#[derive(Debug)]
struct Removing {
    steps: Vec<Step>,
    /// Of those that the source does not have, these hold something that is left out by a rule.
    kept: HashSet<Name>,
}

#[derive(Debug)]
enum Step {
    /// List a directory, or more of it.
    List(Name, Option<u64>),
    /// All was removed of a directory that the source does not have, but what rules leave out.
    Leave(Name),
}

/// A directory that was listed.
struct Listed {
    directory: Name,
    /// Whether the source has it, or all in it goes.
    may_remove: bool,
    /// Whether names are one in it that are not at the destination itself.
    is_blurred: bool,
    /// Whether it lies in a source.
    is_read: bool,
}

/// What becomes of something in it.
enum Becomes {
    Listed,
    Left,
    Emptied,
    Removed,
}

impl Finish {
    pub fn new(names: Names) -> Self {
        Self { cases: Cases::new(names), ..Self::default() }
    }

    /// Whether nothing is listed or looked at for the end.
    pub fn is_quiet(&self) -> bool {
        self.listing.is_none() && self.looking.is_none()
    }

    /// The source told of something that is no directory.
    pub fn tell(&mut self, name: &Name, delete: bool) {
        if delete {
            self.told.add(self.cases.known(name));
        }
    }

    /// Whether it told of this.
    fn is_told(&self, name: &Name) -> bool {
        self.told.has(self.cases.known(name))
    }

    fn is_told_directory(&self, name: &Name) -> bool {
        self.told_directories.has(self.cases.known(name))
    }

    /// A file would be replaced, and is not as this is but a rehearsal.
    pub fn would_replace(&mut self, name: &Name, rehearse: bool) {
        if rehearse {
            self.replaced.add(name);
        }
    }

    /// A name failed, which was to be a file of this size and time, if it is known.
    pub fn failed(&mut self, name: &Name, was_to_be: Option<(u64, Option<Stamp>)>) {
        match self.failed.len() < MOST || self.failed.contains_key(name) {
            true => drop(self.failed.insert(name.clone(), was_to_be)),
            false => self.failed_others = true,
        }
    }

    /// Whether a name has what it was to have; if it failed, perhaps only an attribute is missing.
    fn is_right(&self, name: &Name, found: &Looked) -> bool {
        let is_it = |seen: &Seen, (size, mtime)| seen.size == size && Some(seen.mtime) == mtime;
        match (self.failed.get(name), found) {
            (None, _) => !self.failed_others,
            (Some(Some(was_to_be)), Ok(Some(found))) => is_it(&found.seen, *was_to_be),
            _ => false,
        }
    }

    /// The source told of a directory.
    pub fn tell_directory(&mut self, name: &Name, delete: bool) {
        if delete {
            let known = self.cases.known(name);
            self.told.add(&known);
            self.told_directories.add(&known);
        }
    }
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Does what is to be done at the end, if it has come.
    pub(super) fn finish_on(&mut self) {
        let moving = !self.works.is_empty() || !self.finish.to_begin.is_empty() || !self.incoming.is_empty();
        if self.source_end.is_none() || moving {
            return;
        }
        while self.is_quiet() && self.talk.ended.is_none() {
            match self.finish.phase {
                Phase::Linking => match self.finish.links.pop() {
                    Some(entries) => self.look_at_links(entries),
                    None => self.finish.phase = Phase::Removing,
                },
                Phase::Removing => self.remove_on(),
                Phase::Closing if !self.notes.is_over() => return,
                Phase::Closing => self.close_journal(),
                Phase::Adorning => match self.finish.directories.pop() {
                    Some(entries) => self.adorn(entries),
                    None => self.finish.phase = Phase::Syncing,
                },
                Phase::Syncing => {
                    if self.options.sync != Sync::None && !self.options.rehearse {
                        let ticket = self.talk.submit(Operation::Sync { root: 0 });
                        self.errands.began(ticket, vec![at_the_root()]);
                    }
                    self.finish.phase = Phase::Over;
                }
                Phase::Over => self.say_end(),
            }
        }
    }

    fn close_journal(&mut self) {
        match self.notes.close(self.finish.parts_are_gone) {
            Close::Write => return self.note_on(),
            Close::Leave => {}
            Close::Remove(journal) => self.remove_quietly(journal),
        }
        self.finish.phase = Phase::Adorning;
    }

    /// Removes something of ours, of which only failure is told.
    fn remove_quietly(&mut self, what: FilePath) {
        let ticket = self.talk.submit(Operation::Remove(vec![what]));
        self.errands.began(ticket, vec![at_the_root()]);
    }

    fn say_end(&mut self) {
        let Totals { moved, failed, bytes, size, resumed, unchanged, removed, .. } = self.talk.totals;
        self.tell_on();
        self.talk.send(&Frame::End(End { entries: moved, failed, bytes, size, resumed, unchanged, removed }));
        self.talk.ended = Some(Ended::Done);
    }

    /// Looks at further names and those that they are to be names with, now that all files are what they will be.
    fn look_at_links(&mut self, entries: Vec<Entry>) {
        let path = |name: &Name| FilePath::new(0, name.as_bytes());
        let both = |entry: &Entry| match &entry.object {
            Object::HardLink(to) => [path(&entry.name), path(to)],
            Object::New(_) => [path(&entry.name), path(&entry.name)],
        };
        let at = entries.iter().flat_map(both).collect();
        let (details, links) = (Details::default(), Vec::new());
        let look = self.talk.submit(Operation::Look { at, details, links });
        self.finish.looking = Some((look, entries));
    }

    pub(super) fn link(&mut self, entries: Vec<Entry>, found: Vec<Looked>) {
        let to_go = self.directories_for_links(&entries, &found);
        if !to_go.is_empty() {
            if !self.options.rehearse {
                entries.into_iter().for_each(|entry| self.finish.links.push(entry));
                return self.remove(to_go);
            }
            self.remove(to_go);
        }
        let (mut makings, mut errands) = (Vec::new(), Vec::new());
        for (Entry { name, object }, both) in entries.into_iter().zip(found.chunks(2)) {
            let (Object::HardLink(to), [at, first]) = (object, both) else { continue };
            match self.further(&to, at, first) {
                Further::Unchanged => {
                    self.talk.totals.unchanged += 1;
                    self.note_found(&name, at.as_ref().ok().and_then(Option::as_ref));
                }
                Further::Not(why) => {
                    let words = format!("{to}, of which it is a further name, {why}, so it is left as it is");
                    self.talk.problem(About::Name(name), Reason::Other, &words);
                }
                Further::Make if self.is_in_the_way(&name, at) => {
                    let fault = self.directory_in_the_way();
                    self.talk.problem(About::Name(name), crate::report::reason(fault.why), &fault.text);
                }
                Further::Make => {
                    makings.push(Making {
                        at: FilePath::new(0, name.as_bytes()),
                        object: Made::HardLink(FilePath::new(0, to.as_bytes())),
                        attributes: Attributes::default(),
                    });
                    errands.push(Errand { is_file: is_file(first), ..Errand::of(name, Action::Made) });
                }
            }
        }
        if self.options.rehearse {
            return errands.into_iter().for_each(|errand| self.errand_done(errand, Ok(())));
        }
        let ticket = self.talk.submit(Operation::Make(makings));
        self.errands.began(ticket, errands);
    }

    /// Whether a directory is in the place of a further name. In a rehearsal those that would go are still there.
    fn is_in_the_way(&self, name: &Name, at: &Looked) -> bool {
        let is_directory = matches!(at, Ok(Some(found)) if found.seen.kind == FileKind::Directory);
        is_directory && !(self.options.rehearse && self.finish.cleared.contains(name))
    }

    /// What becomes of a further name of the file `to`, by what is at both names.
    fn further(&self, to: &Name, at: &Looked, first: &Looked) -> Further {
        let replaced = self.finish.replaced.has(to);
        if self.finish.outsized.has(to) || is_one(at, first) && !replaced {
            return Further::Unchanged;
        }
        // What the first name has may be as old as it was, and this one better.
        if !self.finish.is_right(to, first) {
            return Further::Not(if self.finish.failed.contains_key(to) {
                "failed"
            } else {
                "may have failed"
            });
        }
        // Of what would be replaced it is not known here how new it would be.
        if self.options.update && !replaced && is_newer(at, first) {
            return Further::Unchanged;
        }
        match self.finish.newer.has(to) {
            true => Further::Not("is newer here"),
            false => Further::Make,
        }
    }

    /// Directories where further names of files are to be, if they are to go: each is tried once.
    fn directories_for_links(&mut self, entries: &[Entry], found: &[Looked]) -> Vec<Name> {
        if !self.may_clear() {
            return Vec::new();
        }
        let goes =
            |found: &Looked| matches!(found, Ok(Some(found)) if may_go(&self.options.spared, &found.seen));
        let is_in_the_way = |entry: &Entry, both: &[Looked]| match (&entry.object, both) {
            (Object::HardLink(to), [at, first]) => {
                goes(at) && matches!(self.further(to, at, first), Further::Make)
            }
            _ => false,
        };
        let names: Vec<_> =
            entries.iter().zip(found.chunks(2)).filter(|(entry, both)| is_in_the_way(entry, both)).collect();
        names
            .into_iter()
            .map(|(entry, _)| entry.name.clone())
            .filter(|name| self.finish.cleared.insert(name.clone()))
            .collect()
    }

    /// Directories from the last one on, so that each comes after what it holds.
    fn adorn(&mut self, entries: Vec<Entry>) {
        let keep = self.options.keep;
        let (mut all, mut errands) = (Vec::new(), Vec::new());
        for Entry { name, object } in entries.into_iter().rev() {
            let Object::New(inode) = object else { continue };
            // One that could not be made was told.
            if self.finish.failed.contains_key(&name) {
                continue;
            }
            let masked = self.finish.masked.has(&name);
            let bits = self.bits(&inode);
            let attributes = Attributes {
                mode: Some(if masked { bits & 0o777 } else { bits }),
                masked,
                mtime: Some(super::stamp(&inode)),
                user: keep.users.then(|| inode.user.id()),
                group: keep.groups.then(|| inode.group.id()),
                xattrs: self.xattrs(&inode),
            };
            all.push((FilePath::new(0, name.as_bytes()), attributes));
            let action = if self.is_made(&name) { Action::Made } else { Action::Adorned };
            let action = self.finish.adorned.has(&name).then_some(action);
            errands.push(Errand { action, ..Errand::untold(name) });
        }
        if self.options.rehearse {
            return self.rehearse(errands.into_iter());
        }
        let ticket = self.talk.submit(Operation::Adorn(all));
        self.errands.began(ticket, errands);
    }

    /// Whether this is the destination itself, which was made just before.
    pub(super) fn is_made(&self, name: &Name) -> bool {
        self.options.made && *name == Name::root()
    }

    /// Removes what the source does not have, one directory after the other.
    fn remove_on(&mut self) {
        if !self.options.delete {
            self.finish.phase = Phase::Closing;
            return;
        }
        let is_whole = !self.finish.incomplete && self.talk.totals.failed == 0;
        if !is_whole && self.finish.removing.is_none() {
            let words = "nothing was removed here, because not all was there";
            self.talk.problem(About::Name(Name::root()), Reason::Other, words);
            self.finish.phase = Phase::Closing;
            return;
        }
        let root = || Removing { steps: vec![Step::List(Name::root(), None)], kept: HashSet::new() };
        let removing = self.finish.removing.get_or_insert_with(root);
        let (directory, more) = match removing.steps.pop() {
            Some(Step::List(directory, more)) => (directory, more),
            Some(Step::Leave(directory)) if removing.kept.remove(&directory) => {
                return self.keep(directory.parent());
            }
            Some(Step::Leave(directory)) => return self.remove(vec![directory]),
            None => {
                self.finish.parts_are_gone =
                    !self.finish.spared && self.finish.is_told_directory(&Name::root());
                self.finish.phase = Phase::Closing;
                return;
            }
        };
        let (most, details) = (NAMES, Details { names: true, ..Details::default() });
        let operation = match more {
            Some(listing) => Operation::More { listing, most, details },
            None => Operation::List { directory: FilePath::new(0, directory.as_bytes()), most, details },
        };
        let ticket = self.talk.submit(operation);
        self.finish.listing = Some((ticket, directory));
    }

    pub(super) fn listed(&mut self, ticket: Ticket, listing: Result<Listing, Fault>) {
        let Some((_, directory)) = self.finish.listing.take_if(|(under_way, _)| *under_way == ticket) else {
            return;
        };
        let listing = match listing {
            Ok(listing) => listing,
            // A directory that a rehearsal did not make, or not open to its owner.
            Err(fault) if self.options.rehearse && matches!(fault.why, Why::NotFound | Why::Permission) => {
                return self.keep(Some(directory));
            }
            Err(fault) => {
                let reason = crate::report::reason(fault.why);
                self.talk.problem(About::Name(directory.clone()), reason, &fault.text);
                return self.spare(directory);
            }
        };
        let listed = Listed {
            may_remove: self.finish.is_told_directory(&directory) || self.is_extra(&directory),
            // Nothing of a directory that the source does not have has another spelling.
            is_blurred: listing.names > self.finish.cases.names()
                && self.finish.is_told_directory(&directory),
            is_read: self.finish.read.contains(&directory),
            directory,
        };
        let directory = &listed.directory;
        let (mut steps, mut remove) = (Vec::new(), Vec::new());
        steps.extend(listing.more.map(|more| Step::List(directory.clone(), Some(more))));
        for (component, found) in listing.found {
            let name = match self.named(directory, &component, found.as_ref().err()) {
                Ok(name) => name,
                Err((about, fault)) => {
                    // What is gone by now is no failure.
                    if fault.why != Why::NotFound {
                        self.talk.problem(About::Name(about), crate::report::reason(fault.why), &fault.text);
                    }
                    self.spare(directory.clone());
                    continue;
                }
            };
            let seen = found.ok().map(|found| found.seen);
            if listed.may_remove && is_ours(&component) && *component != *JOURNAL {
                self.part_of_another(&listed, name, seen);
                continue;
            }
            match self.becomes(&listed, &name, &component, seen) {
                Becomes::Listed => steps.push(Step::List(name, None)),
                Becomes::Left => {}
                // What it holds is named, too.
                Becomes::Emptied => steps.extend([Step::Leave(name.clone()), Step::List(name, None)]),
                Becomes::Removed => remove.push(name),
            }
        }
        if let Some(removing) = &mut self.finish.removing {
            removing.steps.append(&mut steps);
        }
        self.remove(remove);
    }

    /// The name of what a directory holds; else what cannot be said of it, and why. Where there are rules its kind must be known.
    fn named(
        &self,
        directory: &Name,
        component: &[u8],
        fault: Option<&Fault>,
    ) -> Result<Name, (Name, Fault)> {
        let too_long = |error| Fault::new(Why::NameTooLong, format!("name what it holds: {error}"));
        let name = directory.join(component).map_err(|error| (directory.clone(), too_long(error)))?;
        match fault.filter(|_| !self.options.filter.is_empty()) {
            Some(fault) => Err((name, fault.clone())),
            None => Ok(name),
        }
    }

    /// Something stays in a directory, and so does that.
    fn spare(&mut self, directory: Name) {
        self.finish.spared = true;
        self.keep(Some(directory));
    }

    /// A partial file of another transfer, or of one that was cut and is not gone on with, goes if nobody wrote to it of late.
    fn part_of_another(&mut self, listed: &Listed, name: Name, seen: Option<Seen>) {
        match seen.is_some_and(|seen| seen.mtime < self.options.spared_since) {
            true if self.options.rehearse => {}
            true => self.remove_quietly(FilePath::new(0, name.as_bytes())),
            false => self.spare(listed.directory.clone()),
        }
    }

    /// What becomes of something in a directory where things may be removed.
    fn becomes(&mut self, listed: &Listed, name: &Name, component: &[u8], seen: Option<Seen>) -> Becomes {
        let is_directory = seen.is_some_and(|seen| seen.kind == FileKind::Directory);
        if is_directory && self.finish.is_told_directory(name) {
            if listed.is_read || seen.is_some_and(|seen| self.options.spared.is_read(&seen)) {
                self.finish.read.insert(name.clone());
            }
            return Becomes::Listed;
        }
        // Nobody looks at what a directory holds that stays.
        if !listed.may_remove || self.finish.is_told(name) || component == JOURNAL {
            self.finish.spared |= is_directory;
            return Becomes::Left;
        }
        let is_left_out = !self.options.filter.takes(name, is_directory);
        let why = match seen {
            _ if is_left_out => None,
            Some(seen) if listed.is_read || self.options.spared.holds(&seen) => {
                Some("it is not removed, as it lies in the source, is it or holds it")
            }
            // It may be what the source told of under another name.
            _ if listed.is_blurred => Some(
                "it is not removed, as here names are one that differ in case alone, and at the destination itself they are not",
            ),
            _ => None,
        };
        if let Some(why) = why {
            self.talk.problem(About::Name(name.clone()), Reason::Other, why);
        }
        if why.is_some() || is_left_out {
            self.finish.spared |= is_directory;
            self.keep(Some(listed.directory.clone()));
            return Becomes::Left;
        }
        if is_directory {
            Becomes::Emptied
        } else {
            Becomes::Removed
        }
    }

    /// Whether a directory that is listed is one that the source does not have.
    fn is_extra(&self, directory: &Name) -> bool {
        let leaves = |step: &Step| matches!(step, Step::Leave(left) if left == directory);
        self.finish.removing.as_ref().is_some_and(|removing| removing.steps.iter().rev().any(leaves))
    }

    /// Something in a directory stays, or is not known: so it stays, too. One that the source has is not removed anyway.
    fn keep(&mut self, directory: Option<Name>) {
        let extra = directory.filter(|directory| !self.finish.is_told_directory(directory));
        if let Some(removing) = &mut self.finish.removing {
            removing.kept.extend(extra);
        }
    }

    /// Has these removed with all that they hold, and tells of it.
    pub(super) fn remove(&mut self, names: Vec<Name>) {
        let paths: Vec<FilePath> = names.iter().map(|name| FilePath::new(0, name.as_bytes())).collect();
        let errand = |name| Errand::of(name, Action::Removed);
        let errands: Vec<Errand> = names.into_iter().map(errand).collect();
        if self.options.rehearse {
            return errands.into_iter().for_each(|errand| self.errand_done(errand, Ok(())));
        }
        if !paths.is_empty() {
            let ticket = self.talk.submit(Operation::Remove(paths));
            self.errands.began(ticket, errands);
        }
    }
}

fn is_file(found: &Looked) -> bool {
    matches!(found, Ok(Some(found)) if found.seen.kind == FileKind::File)
}

/// Whether both are there, and are one.
fn is_one(found: &Looked, other: &Looked) -> bool {
    let (Ok(Some(found)), Ok(Some(other))) = (found, other) else { return false };
    (found.seen.volume, found.seen.inode) == (other.seen.volume, other.seen.inode)
}

/// Whether both are files, and the first one is newer.
fn is_newer(found: &Looked, than: &Looked) -> bool {
    let time = |found: &Looked| found.as_ref().ok()?.as_ref().map(|found| found.seen.mtime);
    is_file(found) && is_file(than) && time(found) > time(than)
}

/// For what is done to the whole, of which only failure is told.
fn at_the_root() -> Errand {
    Errand::untold(Name::root())
}
