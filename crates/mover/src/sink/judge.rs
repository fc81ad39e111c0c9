//! Deciding what is needed: each entry is compared with what is in its place.

use super::cases::Cases;
use super::compare::is_alike;
use super::errands::Errand;
use super::{stamp, Incoming, Sink, Spared, Work};
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Mode, Object, MAX_EXTENTS};
use crate::extent::{Extent, ExtentSet};
use crate::name::Name;
use crate::ours::is_ours;
use crate::report::Action;
use crate::source::in_blocks;
use crate::wire::{Frame, Needed, Want, Wants, MAX_WANTS};
use numaio_machine::port::{
    Attributes, Begin, Fault, FileKind, FilePath, Found, Making, Operation, Put, Seen, Settle, Stamp, Why,
    UNFINISHED,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Answers to a batch, and the files that are to be begun before they are given.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    answers: BTreeMap<u64, Needed>,
    /// Files that are begun by this operation, and whether they were there.
    files: Vec<(FileNumber, Begin)>,
}

/// What is to be done for the entries of one batch.
#[derive(Debug, Default)]
struct Todo {
    /// Whether a file of these is written beside its name.
    beside: bool,
    prepared: Prepared,
    puts: Vec<Put>,
    empty: Vec<(Put, Errand)>,
    make: Vec<(Making, Errand)>,
    adorn: Vec<(FilePath, Attributes, Errand)>,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Goes on with the batches that were looked at, in their order: directories must be there before what they hold.
    pub(super) fn work_on(&mut self) {
        self.begin_held();
        while self.making.is_none() && self.hashes.has_room() && self.notes.has_room() {
            let ready =
                |work: &Work| work.found.is_some() && self.hashes.are_known(work.first, work.entries.len());
            if !self.works.front().is_some_and(ready) {
                return;
            }
            self.clearing |= self.clear_way();
            if self.clearing && !self.errands.is_empty() {
                return;
            }
            self.clearing = false;
            self.works.pop_front().into_iter().for_each(|work| self.work(work));
        }
    }

    /// Whether a directory goes where something else is to be.
    pub(super) fn may_clear(&self) -> bool {
        self.options.delete && self.options.filter.is_empty() && !self.options.spared.is_inside
    }

    /// Has directories removed that are where something else of the first batch is to be, if what the source does not have is to go;
    /// tells whether there are any. They stay where rules may leave out what they hold.
    fn clear_way(&mut self) -> bool {
        let may_clear = self.may_clear();
        let Some(work) = self.works.front_mut().filter(|_| may_clear) else { return false };
        let entries = work.entries.iter().zip(&work.seconds);
        let new = entries.filter_map(|(entry, second)| match &entry.object {
            Object::New(inode) => Some((&entry.name, &inode.kind, *second)),
            Object::HardLink(_) => None,
        });
        let mut names = Vec::new();
        for ((name, kind, second), found) in new.zip(work.found.iter_mut().flatten()) {
            let is_made = match kind {
                Kind::Directory => false,
                Kind::File(content) => self.options.sizes.contains(&content.size()),
                kind => object(kind, self.options.devices).is_ok(),
            };
            let goes = |found: &Found| !found.led_to && may_go(&self.options.spared, &found.seen);
            if is_made
                && matches!(found, Ok(Some(found)) if goes(found))
                && refuse(&self.finish.cases, name, second).is_ok()
            {
                *found = Ok(None);
                names.push(name.clone());
            }
        }
        let any = !names.is_empty();
        self.remove(names);
        any
    }

    fn work(&mut self, mut work: Work) {
        let found = work.found.take().unwrap_or_default();
        let mut found = found.into_iter();
        let first = work.first.get();
        let mut todo = Todo::default();
        let mut directories = Vec::new();
        for (index, (entry, second)) in work.entries.into_iter().zip(work.seconds).enumerate() {
            let number = first + index as u64;
            todo.prepared.answers.insert(number, Needed::Nothing);
            let Ok(number) = FileNumber::new(number) else { continue };
            let is_new = matches!(entry.object, Object::New(_));
            let there = if is_new { found.next().unwrap_or(Ok(None)) } else { Ok(None) };
            if let Err(fault) = refuse(&self.finish.cases, &entry.name, second) {
                self.fail(number, &entry.name, &fault);
                continue;
            }
            match entry.object {
                Object::HardLink(_) => {
                    self.leave_none(&entry.name);
                    self.finish.tell(&entry.name, self.options.delete);
                    self.finish.links.push(entry);
                }
                Object::New(inode) => {
                    self.judge(number, entry.name, inode, there, &mut todo, &mut directories);
                }
            }
        }
        if directories.is_empty() || self.options.rehearse {
            self.rehearse(directories.into_iter().map(|(_, errand)| errand));
            return self.carry_out(todo);
        }
        let makings = directories.iter().map(|(making, _): &(Making, Errand)| making.clone()).collect();
        self.making = Some(self.talk.submit(Operation::Make(makings)));
        self.finish.held = Some((directories.into_iter().map(|(_, errand)| errand).collect(), todo.into()));
    }

    /// Directories of the first batch were made.
    pub(super) fn made(&mut self, results: Vec<Result<(), Fault>>) {
        let Some((errands, todo)) = self.finish.held.take() else { return };
        for (errand, result) in errands.into_iter().zip(results) {
            self.errand_done(errand, result);
        }
        let Held(todo) = todo;
        self.carry_out(*todo);
    }

    fn judge(
        &mut self,
        number: FileNumber,
        name: Name,
        inode: Inode,
        found: Result<Option<Found>, Fault>,
        todo: &mut Todo,
        directories: &mut Vec<(Making, Errand)>,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(fault) => return self.fail(number, &name, &fault),
        };
        if let Kind::Directory = inode.kind {
            return self.directory(number, name, inode, found.as_ref(), directories);
        }
        let outsized =
            matches!(&inode.kind, Kind::File(content) if !self.options.sizes.contains(&content.size()));
        let in_its_place = found.as_ref().filter(|_| !outsized);
        if let Some(fault) = in_its_place.and_then(|found| self.stays(&inode.kind, found)) {
            return self.fail(number, &name, &fault);
        }
        let attributes = self.attributes(&inode, found.as_ref().map(|found| &found.seen));
        self.finish.tell(&name, self.options.delete);
        // The source could not read it, and told so.
        let Some(equal) = self.hashes.take(number) else { return self.finish.failed(&name, None) };
        let same = found.as_ref().is_some_and(|found| self.is_same(&inode, found, equal));
        let both_files = |seen: &Seen| seen.kind == FileKind::File && matches!(inode.kind, Kind::File(_));
        let newer =
            found.as_ref().is_some_and(|found| both_files(&found.seen) && found.seen.mtime > stamp(&inode));
        let newer = self.options.update && newer;
        if outsized || newer || same && !self.differs(&inode, found.as_ref()) {
            if newer && !same {
                self.finish.newer.add(&name);
            }
            return self.leave_alone(&name, &inode.kind, outsized, found.as_ref());
        }
        let errand = |action| Errand { number: Some(number), ..Errand::of(name.clone(), action) };
        let at = FilePath::new(0, name.as_bytes());
        if same {
            self.leave_none(&name);
            self.note_found(&name, found.as_ref());
            // Data that is the same as far as can be told is never given a finer time than it has: a later run could not tell any more.
            let is_kept = found.is_some_and(|found| self.is_kept(&inode, &found.seen));
            let mtime = attributes.mtime.filter(|_| !is_kept);
            return todo.adorn.push((at, Attributes { mtime, ..attributes }, errand(Action::Adorned)));
        }
        match &inode.kind {
            Kind::File(content) => {
                let content = content.clone();
                self.file((number, name), inode, content, attributes, found.as_ref(), todo);
            }
            kind => match object(kind, self.options.devices) {
                Ok(object) => {
                    self.leave_none(&name);
                    let was_to_be = told_apart((0, attributes.mtime), found.as_ref());
                    let errand = Errand { was_to_be, replaces: true, ..errand(Action::Made) };
                    todo.make.push((Making { at, object, attributes }, errand));
                }
                Err(fault) => self.fail(number, &name, &fault),
            },
        }
    }

    /// What is there stays as it is.
    fn leave_alone(&mut self, name: &Name, kind: &Kind, outsized: bool, found: Option<&Found>) {
        let size = if let Kind::File(content) = kind { content.size() } else { 0 };
        // Sparse files may claim more together than can be counted.
        self.there = self.there.saturating_add(size);
        match outsized {
            // A run without such a limit goes on with what was begun of it.
            true => drop(self.finish.outsized.add(name)),
            false => self.leave_none(name),
        }
        self.talk.totals.unchanged += 1;
        self.note_found(name, found);
    }

    /// What stays where something else is to be: a directory, and of what the user named as the place of a file all that is none:
    /// `numaio copy FILE /dev/null`.
    fn stays(&self, wanted: &Kind, found: &Found) -> Option<Fault> {
        let there = &found.seen;
        if found.led_to {
            return Some(in_the_way("it is a link to what it would replace, or into it"));
        }
        let is_named = self.options.alias.is_some() && !is_alike(wanted, there.kind);
        let what = match there.kind {
            FileKind::Directory => return Some(self.directory_in_the_way()),
            FileKind::BlockDevice(..) | FileKind::CharacterDevice(..) if is_named => "a device",
            FileKind::Fifo if is_named => "a pipe",
            FileKind::Socket if is_named => "a socket",
            _ => return None,
        };
        Some(in_the_way(&format!("{what} is in its place")))
    }

    /// Where others are removed it is not for its own sake that one stays.
    pub(super) fn directory_in_the_way(&self) -> Fault {
        in_the_way(match self.options.delete && !self.options.filter.is_empty() {
            true => "a directory is in its place, and rules may leave out what it holds",
            false => "a directory is in its place",
        })
    }

    /// What has this name is not written: nothing is left of an earlier try.
    fn leave_none(&mut self, name: &Name) {
        if !self.options.rehearse {
            self.notes.leave_none(name);
        }
    }

    fn directory(
        &mut self,
        number: FileNumber,
        name: Name,
        inode: Inode,
        found: Option<&Found>,
        directories: &mut Vec<(Making, Errand)>,
    ) {
        self.finish.tell_directory(&name, self.options.delete);
        if name != Name::root() {
            self.leave_none(&name);
        }
        let is_there = found.is_some_and(|found| found.seen.kind == FileKind::Directory);
        if is_there && (self.is_made(&name) || self.differs(&inode, found)) {
            self.finish.adorned.add(&name);
        } else if is_there {
            self.talk.totals.unchanged += 1;
        } else if found.is_none() {
            self.fresh.push(&name);
        }
        // One that is there may still be closed to us, until the end; DST itself, if it was made just before, is as others are that are made.
        let mode = self.is_made(&name).then_some(UNFINISHED);
        let making = Making {
            at: FilePath::new(0, name.as_bytes()),
            object: numaio_machine::port::Object::Directory,
            attributes: Attributes { mode, ..Attributes::default() },
        };
        let action = (!is_there).then_some(Action::Made);
        let told = Errand { number: Some(number), action, ..Errand::untold(name.clone()) };
        directories.push((making, told));
        let keep = self.options.keep.modes;
        let stays =
            found.filter(|found| is_there && !keep && !self.is_made(&name) && !is_unfinished(&found.seen));
        let stays = stays.and_then(|found| Mode::new(found.seen.mode).ok());
        if stays.is_none() && !keep {
            self.finish.masked.add(&name);
        }
        let mode = stays.unwrap_or(inode.mode);
        self.finish.directories.push(Entry { name, object: Object::New(Inode { mode, ..inode }) });
    }

    /// A regular file whose data is to be moved.
    fn file(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: Inode,
        content: Content,
        mut attributes: Attributes,
        found: Option<&Found>,
        todo: &mut Todo,
    ) {
        // What is written to one that has further names is written to those, be they outside DST.
        let is_alone = |found: &Found| found.seen.kind == FileKind::File && found.seen.links < 2;
        let in_place = self.options.in_place && found.is_none_or(is_alone);
        if self.taken.contains(&name) {
            return self.fail(number, &name, &Fault::new(Why::Exists, "the source told of this name twice"));
        }
        if !in_place && !self.options.keep.modes {
            // These bits are about the owner of what is replaced.
            attributes.mode = attributes.mode.map(|mode| mode & !0o6000);
        }
        let end = FilePath::new(0, name.as_bytes());
        let at = match in_place {
            true => end.clone(),
            false => self.notes.partial(&name),
        };
        todo.beside |= !in_place;
        let begin = if in_place { Begin::InPlace } else { Begin::Fresh };
        let size = content.size();
        let was_to_be = told_apart((size, attributes.mtime), found);
        let left = blocks_of(&content);
        if left.is_empty() || self.options.rehearse {
            if !self.options.rehearse {
                self.forget_others(&name, in_place, None);
            }
            let bytes = bytes_of(&left);
            self.talk.totals.size = self.talk.totals.size.saturating_add(bytes);
            let settle = self.settle(size, attributes, end);
            let told = Errand { number: Some(number), bytes, was_to_be, ..Errand::of(name, Action::Copied) };
            let errand = Errand { is_file: true, replaces: !in_place, ..told };
            let put = Put { settle: Some(settle), ..Put::begin(at, begin) };
            return todo.empty.push((put, errand));
        }
        let one_part = size <= numaio_machine::port::BLOCK as u64;
        let key = if in_place { None } else { self.notes.key(&name, &inode, &content) };
        let mut file = Incoming {
            name,
            content,
            at,
            in_place,
            attributes,
            key,
            answered: false,
            left,
            bytes: 0,
            holes: 0,
            writing: 0,
            done: None,
            was_to_be,
        };
        let resumed = self.resume(&mut file);
        self.forget_others(&file.name, in_place, file.key.filter(|_| resumed));
        todo.prepared.answers.insert(number.get(), needed(&file, resumed));
        if !one_part {
            let begin = if resumed { Begin::Continue } else { begin };
            let held = if resumed { held(&file) } else { Vec::new() };
            todo.puts.push(Put { held, ..Put::begin(file.at.clone(), begin) });
            todo.prepared.files.push((number, begin));
        }
        self.taken.insert(file.name.clone());
        self.incoming.insert(number.get(), file);
    }

    /// Nothing is believed any more of what an earlier try left of other versions of a file, which is written over or goes.
    fn forget_others(&mut self, name: &Name, in_place: bool, resumed: Option<FileNumber>) {
        match in_place {
            true => self.notes.leave_none(name),
            false => self.notes.void(name, resumed),
        }
    }

    /// Leaves out what the journal says is there; tells whether anything is.
    fn resume(&mut self, file: &mut Incoming) -> bool {
        let Some(key) = file.key else { return false };
        let Some(left) = self.notes.left(key, &in_whole_blocks(&file.content)) else { return false };
        if left == file.left {
            return false;
        }
        // Else the source sends all, or cannot be told what to send.
        if self.options.unasked || left.intervals() > MAX_EXTENTS {
            return false;
        }
        file.left = left;
        true
    }

    pub(super) fn settle(&self, size: u64, attributes: Attributes, name: FilePath) -> Settle {
        Settle { size, attributes, name, sync: self.options.sync == super::Sync::File }
    }

    /// Begins what was decided. Files are written beside their names only when the journal is there, so that a run after
    /// this one finds them.
    fn carry_out(&mut self, todo: Todo) {
        if !self.options.rehearse && todo.beside && todo.writes() {
            self.notes.need();
        }
        self.finish.to_begin.push(todo.into());
        self.begin_held();
    }

    /// Carries out what was decided, once nothing on disk says otherwise.
    fn begin_held(&mut self) {
        while self.notes.is_clean() {
            let Some(Held(todo)) = self.finish.to_begin.pop() else { return };
            self.begin(*todo);
        }
    }

    fn begin(&mut self, todo: Todo) {
        let Todo { prepared, puts, empty, make, adorn, .. } = todo;
        if self.options.rehearse {
            self.rehearse(empty.into_iter().map(|(_, errand)| errand));
            self.rehearse(make.into_iter().map(|(_, errand)| errand));
            self.rehearse(adorn.into_iter().map(|(_, _, errand)| errand));
            return self.answer(prepared.answers);
        }
        let hash = self.options.hash.function();
        if !empty.is_empty() {
            let (puts, errands) = empty.into_iter().unzip();
            let ticket = self.talk.submit(Operation::Write { puts, data: None, hash, packed: None });
            self.errands.began(ticket, errands);
        }
        if !make.is_empty() {
            let (makings, errands) = make.into_iter().unzip();
            let ticket = self.talk.submit(Operation::Make(makings));
            self.errands.began(ticket, errands);
        }
        if !adorn.is_empty() {
            let (all, errands) =
                adorn.into_iter().map(|(at, attributes, errand)| ((at, attributes), errand)).unzip();
            let ticket = self.talk.submit(Operation::Adorn(all));
            self.errands.began(ticket, errands);
        }
        if puts.is_empty() {
            return self.answer(prepared.answers);
        }
        let ticket = self.talk.submit(Operation::Write { puts, data: None, hash, packed: None });
        self.preparing.insert(ticket, prepared);
    }

    /// Files were begun, or cannot be.
    pub(super) fn prepared(&mut self, mut prepared: Prepared, results: Vec<Result<(), Fault>>) {
        let mut again = Prepared::default();
        let mut puts = Vec::new();
        for ((number, begin), result) in std::mem::take(&mut prepared.files).into_iter().zip(results) {
            let Some(file) = self.incoming.get_mut(&number.get()) else {
                prepared.answers.insert(number.get(), Needed::Nothing);
                continue;
            };
            match result {
                Ok(()) => {
                    if begin == Begin::Continue {
                        self.talk.totals.resumed +=
                            bytes_of(&blocks_of(&file.content)) - bytes_of(&file.left);
                    }
                }
                Err(_) if begin == Begin::Continue => {
                    // What was there before is gone, or cannot be trusted.
                    file.left = blocks_of(&file.content);
                    self.notes.void(&file.name, None);
                    let at = file.at.clone();
                    let begin = Begin::Fresh;
                    puts.push(Put::begin(at, begin));
                    again.files.push((number, begin));
                    prepared.answers.remove(&number.get());
                    again.answers.insert(number.get(), Needed::All);
                }
                Err(fault) => {
                    prepared.answers.insert(number.get(), Needed::Nothing);
                    let name = file.name.clone();
                    self.fail(number, &name, &fault);
                }
            }
        }
        if !puts.is_empty() {
            let again = Todo { prepared: again, puts, ..Todo::default() };
            self.finish.to_begin.push(again.into());
        }
        // Nothing is missing of some: they only need their names.
        let whole: Vec<u64> = prepared.answers.keys().copied().collect();
        self.answer(prepared.answers);
        whole.into_iter().for_each(|number| self.settle_if_whole(number));
    }

    fn answer(&mut self, answers: BTreeMap<u64, Needed>) {
        for number in answers.keys() {
            if let Some(file) = self.incoming.get_mut(number) {
                file.answered = true;
                self.talk.totals.size = self.talk.totals.size.saturating_add(bytes_of(&file.left));
            }
        }
        self.want(answers);
    }

    /// Tells the source what is needed.
    pub(super) fn want(&mut self, answers: BTreeMap<u64, Needed>) {
        let mut wants: Vec<Want> = Vec::new();
        for (number, what) in answers {
            let Ok(first) = FileNumber::new(number) else { continue };
            match wants.last_mut() {
                Some(last) if last.first.get() + last.count == number && last.what == what => last.count += 1,
                _ => wants.push(Want { first, count: 1, what }),
            }
        }
        let mut rest = wants.as_slice();
        while !rest.is_empty() {
            // Few enough extents for one frame.
            let (some, more) = rest.split_at(rest.len().min(if has_extents(rest) { 4 } else { MAX_WANTS }));
            rest = more;
            match Wants::new(some.to_vec()) {
                Ok(wants) => self.talk.send(&Frame::Wants(wants)),
                Err(error) => self.give_up(crate::wire::Reason::Other, &error.to_string()),
            }
        }
    }

    pub(super) fn rehearse(&mut self, errands: impl Iterator<Item = Errand>) {
        errands.for_each(|errand| self.errand_done(errand, Ok(())));
    }

    pub(super) fn errand_done(&mut self, errand: Errand, result: Result<(), Fault>) {
        let Errand { name, number, action, bytes, is_file, replaces, was_to_be } = errand;
        match (result, number) {
            (Ok(()), _) => {
                let Some(action) = action else { return };
                if is_file {
                    self.note_there(&name);
                }
                self.finish.would_replace(&name, self.options.rehearse && replaces);
                self.did(name, action, bytes);
            }
            // Its content is what it was to be.
            (Err(fault), Some(number)) if action == Some(Action::Adorned) => {
                let about = crate::wire::About::File(number, name);
                self.talk.problem(about, crate::report::reason(fault.why), &fault.text);
            }
            (Err(fault), Some(number)) => {
                self.fail(number, &name, &fault);
                if was_to_be.is_some() {
                    self.finish.failed(&name, was_to_be);
                }
            }
            (Err(fault), None) => {
                let reason = crate::report::reason(fault.why);
                self.talk.problem(crate::wire::About::Name(name), reason, &fault.text);
            }
        }
    }
}

impl Todo {
    /// Whether any file is written.
    fn writes(&self) -> bool {
        !self.empty.is_empty() || self.prepared.answers.values().any(|what| *what != Needed::Nothing)
    }
}

/// What is needed of a file that is begun.
fn needed(file: &Incoming, resumed: bool) -> Needed {
    let extents: Vec<Extent> = file.left.iter().collect();
    match resumed {
        false => Needed::All,
        true if extents.is_empty() => Needed::Nothing,
        true => Needed::Some(extents),
    }
}

fn has_extents(wants: &[Want]) -> bool {
    wants.iter().any(|want| matches!(want.what, Needed::Some(_)))
}

/// Whether it is a directory, and none that is read or holds one.
pub(super) fn may_go(spared: &Spared, seen: &Seen) -> bool {
    seen.kind == FileKind::Directory && !spared.holds(seen)
}

/// Names that the sink has for itself, and those that are others' already.
fn refuse(cases: &Cases, name: &Name, second: bool) -> Result<(), Fault> {
    match (cases.known(name).split(|&byte| byte == b'/').any(is_ours), second) {
        (true, _) => Err(Fault::new(Why::Unsupported, "numaio has this name for itself")),
        (_, true) => Err(Fault::new(
            Why::Exists,
            "another name at the source differs in case alone, or looks alike, and here they are one",
        )),
        (false, false) => Ok(()),
    }
}

/// The size and time that something is to have, if what is there has not both: then they tell whether it came to be.
fn told_apart(to_be: (u64, Option<Stamp>), found: Option<&Found>) -> Option<(u64, Option<Stamp>)> {
    let had = found.map(|found| (found.seen.size, Some(found.seen.mtime)));
    (had != Some(to_be)).then_some(to_be)
}

/// Whether a directory was made by a run that did not come to its end. Its group bit may be that of the one above.
fn is_unfinished(seen: &Seen) -> bool {
    seen.mode & !0o2000 == UNFINISHED
}

/// What is sent of a file.
fn blocks_of(content: &Content) -> ExtentSet {
    let mut blocks = ExtentSet::default();
    in_blocks(content.extents(), content.size()).for_each(|block| blocks.insert(block));
    blocks
}

/// Where data of a file is that was noted. Of one with more holes than can be said nobody knows where they are.
fn held(file: &Incoming) -> Vec<Range<u64>> {
    if file.content.is_crowded() {
        return Vec::new();
    }
    let mut held = ExtentSet::default();
    file.content.extents().for_each(|extent| held.insert(extent));
    file.left.iter().for_each(|extent| held.remove(extent));
    held.iter().map(|extent| extent.start()..extent.end()).collect()
}

/// Something is in the place that must not be replaced.
fn in_the_way(words: &str) -> Fault {
    Fault::new(Why::Exists, words)
}

fn bytes_of(extents: &ExtentSet) -> u64 {
    extents.iter().map(Extent::length).sum()
}

/// The same file with its data widened to whole blocks, as it is sent and noted.
fn in_whole_blocks(content: &Content) -> Content {
    let size = content.size();
    Content::seen(size, in_blocks(content.extents(), size)).unwrap_or_else(|_| content.clone())
}

fn object(kind: &Kind, devices: bool) -> Result<numaio_machine::port::Object, Fault> {
    use numaio_machine::port::Object;
    Ok(match kind {
        Kind::Symlink(target) => Object::Symlink(target.as_bytes().into()),
        Kind::Fifo => Object::Fifo,
        Kind::CharacterDevice(device) if devices => Object::CharacterDevice(device.major(), device.minor()),
        Kind::BlockDevice(device) if devices => Object::BlockDevice(device.major(), device.minor()),
        Kind::CharacterDevice(_) | Kind::BlockDevice(_) => {
            return Err(Fault::new(Why::Unsupported, "it is a device, and devices are not made"));
        }
        Kind::File(_) | Kind::Directory => return Err(Fault::new(Why::Other, "it is no special file")),
    })
}

/// What was decided and waits to be carried out.
#[derive(Debug)]
pub(super) struct Held(Box<Todo>);

impl From<Todo> for Held {
    fn from(todo: Todo) -> Self {
        Self(Box::new(todo))
    }
}
