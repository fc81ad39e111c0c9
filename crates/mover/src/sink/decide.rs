//! Deciding what to do with each entry, by comparison with the existing object.

use super::case_folding::CaseFolding;
use super::compare::is_alike;
use super::pending_ops::PendingOp;
use super::{stamp, Incoming, IncomingBatch, ProtectedPaths, Sink};
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Mode, Object, MAX_EXTENTS};
use crate::extent::{Extent, ExtentSet};
use crate::name::Name;
use crate::own_files::is_own_file;
use crate::port::{
    Attributes, Fault, FaultKind, FileCompletion, FileInfo, FileKind, FilePath, FileStat, FileWrite,
    NewObject, OpenMode, Operation, Stamp, UNFINISHED_DIRECTORY_MODE,
};
use crate::report::ChangeKind;
use crate::source::in_blocks;
use crate::wire::{DataRequest, DataRequests, Frame, NeededData, MAX_REQUESTS};
use std::collections::BTreeMap;
use std::ops::Range;

/// Requests for a batch, and the files to start before they are sent.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    answers: BTreeMap<u64, NeededData>,
    /// Files started by this operation, and how each is started.
    files: Vec<(FileNumber, OpenMode)>,
}

/// The pending operations of a batch.
#[derive(Debug, Default)]
struct BatchPlan {
    /// Whether a file is written to a partial file.
    beside: bool,
    prepared: Prepared,
    puts: Vec<FileWrite>,
    empty: Vec<(FileWrite, PendingOp)>,
    make: Vec<(NewObject, PendingOp)>,
    set_attributes: Vec<(FilePath, Attributes, PendingOp)>,
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Processes batches with complete lookups in order: directories must exist before their
    /// contents.
    pub(super) fn process_batches(&mut self) {
        self.start_pending_plans();
        while self.creating_directories.is_none()
            && self.hashes.has_capacity()
            && self.resume_log.has_capacity()
        {
            let ready = |batch: &IncomingBatch| {
                batch.found.is_some() && self.hashes.are_complete(batch.first, batch.entries.len())
            };
            if !self.batches.front().is_some_and(ready) {
                return;
            }
            self.removing_blockers |= self.remove_blocking_directories();
            if self.removing_blockers && !self.pending_ops.is_empty() {
                return;
            }
            self.removing_blockers = false;
            self.batches.pop_front().into_iter().for_each(|batch| self.decide_batch(batch));
        }
    }

    /// Returns whether a directory that blocks another object may be removed.
    pub(super) fn may_remove_blockers(&self) -> bool {
        self.options.delete && self.options.filter.is_empty() && !self.options.protected.inside_destination
    }

    /// Removes directories that block other objects of the first batch, if extra entries are
    /// deleted and no filter may protect their contents; returns whether there are any.
    fn remove_blocking_directories(&mut self) -> bool {
        let may_remove_blockers = self.may_remove_blockers();
        let Some(batch) = self.batches.front_mut().filter(|_| may_remove_blockers) else { return false };
        let entries = batch.entries.iter().zip(&batch.duplicates);
        let new = entries.filter_map(|(entry, duplicate)| match &entry.object {
            Object::New(inode) => Some((&entry.name, &inode.kind, *duplicate)),
            Object::HardLink(_) => None,
        });
        let mut names = Vec::new();
        for ((name, kind, duplicate), found) in new.zip(batch.found.iter_mut().flatten()) {
            let is_created_destination = match kind {
                Kind::Directory => false,
                Kind::File(content) => self.options.sizes.contains(&content.size()),
                kind => port_object(kind, self.options.devices).is_ok(),
            };
            let is_removable = |found: &FileInfo| {
                !found.is_link_destination && is_removable_directory(&self.options.protected, &found.metadata)
            };
            if is_created_destination
                && matches!(found, Ok(Some(found)) if is_removable(found))
                && check_name(&self.finalize.case_folding, name, duplicate).is_ok()
            {
                *found = Ok(None);
                names.push(name.clone());
            }
        }
        let any = !names.is_empty();
        self.remove_reported(names);
        any
    }

    fn decide_batch(&mut self, mut batch: IncomingBatch) {
        let found = batch.found.take().unwrap_or_default();
        let mut found = found.into_iter();
        let first = batch.first.get();
        let mut plan = BatchPlan::default();
        let mut directories = Vec::new();
        for (index, (entry, duplicate)) in batch.entries.into_iter().zip(batch.duplicates).enumerate() {
            let number = first + index as u64;
            plan.prepared.answers.insert(number, NeededData::Nothing);
            let Ok(number) = FileNumber::new(number) else { continue };
            let is_new = matches!(entry.object, Object::New(_));
            let there = if is_new { found.next().unwrap_or(Ok(None)) } else { Ok(None) };
            if let Err(fault) = check_name(&self.finalize.case_folding, &entry.name, duplicate) {
                self.fail(number, &entry.name, &fault);
                continue;
            }
            match entry.object {
                Object::HardLink(_) => {
                    self.discard_leftover(&entry.name);
                    self.finalize.add_source_name(&entry.name, self.options.delete);
                    self.finalize.links.push(entry);
                }
                Object::New(inode) => {
                    self.decide_entry(number, entry.name, inode, there, &mut plan, &mut directories);
                }
            }
        }
        if directories.is_empty() || self.options.dry_run {
            self.report_dry_run(directories.into_iter().map(|(_, op)| op));
            return self.enqueue_plan(plan);
        }
        let makings = directories.iter().map(|(making, _): &(NewObject, PendingOp)| making.clone()).collect();
        self.creating_directories = Some(self.peer.submit(Operation::Create(makings)));
        self.finalize.awaiting_directories =
            Some((directories.into_iter().map(|(_, op)| op).collect(), plan.into()));
    }

    /// Handles the creation of the directories of the first batch.
    pub(super) fn directories_created(&mut self, results: Vec<Result<(), Fault>>) {
        let Some((pending_ops, plan)) = self.finalize.awaiting_directories.take() else { return };
        for (op, result) in pending_ops.into_iter().zip(results) {
            self.op_done(op, result);
        }
        let PendingPlan(plan) = plan;
        self.enqueue_plan(*plan);
    }

    fn decide_entry(
        &mut self,
        number: FileNumber,
        name: Name,
        inode: Inode,
        found: Result<Option<FileInfo>, Fault>,
        plan: &mut BatchPlan,
        directories: &mut Vec<(NewObject, PendingOp)>,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(fault) => return self.fail(number, &name, &fault),
        };
        if let Kind::Directory = inode.kind {
            return self.decide_directory(number, name, inode, found.as_ref(), directories);
        }
        let size_excluded =
            matches!(&inode.kind, Kind::File(content) if !self.options.sizes.contains(&content.size()));
        let in_its_place = found.as_ref().filter(|_| !size_excluded);
        if let Some(fault) = in_its_place.and_then(|found| self.blocking_fault(&inode.kind, found)) {
            return self.fail(number, &name, &fault);
        }
        let attributes = self.attributes(&inode, found.as_ref().map(|found| &found.metadata));
        self.finalize.add_source_name(&name, self.options.delete);
        // The source failed to hash it, and reported that.
        let Some(equal) = self.hashes.take_result(number) else {
            return self.finalize.record_failure(&name, None);
        };
        let same = found.as_ref().is_some_and(|found| self.is_same(&inode, found, equal));
        let both_files =
            |metadata: &FileStat| metadata.kind == FileKind::File && matches!(inode.kind, Kind::File(_));
        let newer = found
            .as_ref()
            .is_some_and(|found| both_files(&found.metadata) && found.metadata.mtime > stamp(&inode));
        let newer = self.options.update && newer;
        if size_excluded || newer || same && !self.differs(&inode, found.as_ref()) {
            if newer && !same {
                self.finalize.newer.add(&name);
            }
            return self.keep_unchanged(&name, &inode.kind, size_excluded, found.as_ref());
        }
        let op = |action| PendingOp { number: Some(number), ..PendingOp::reported(name.clone(), action) };
        let at = FilePath::new(0, name.as_bytes());
        if same {
            return self.set_attributes_of_same((number, name), &inode, attributes, found.as_ref(), plan);
        }
        match &inode.kind {
            Kind::File(content) => {
                let content = content.clone();
                self.decide_file((number, name), inode, content, attributes, found.as_ref(), plan);
            }
            kind => match port_object(kind, self.options.devices) {
                Ok(object) => {
                    self.discard_leftover(&name);
                    let expected = expected_state((0, attributes.mtime), found.as_ref());
                    let op = PendingOp { expected, replaces: true, ..op(ChangeKind::Created) };
                    plan.make.push((NewObject { at, object, attributes }, op));
                }
                Err(fault) => self.fail(number, &name, &fault),
            },
        }
    }

    /// Plans new attributes for an object whose data is the same.
    fn set_attributes_of_same(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: &Inode,
        attributes: Attributes,
        found: Option<&FileInfo>,
        plan: &mut BatchPlan,
    ) {
        self.discard_leftover(&name);
        self.add_found_to_manifest(&name, found);
        // Data taken for unchanged must not get a more precise mtime, or later runs would not
        // recognize it as rounded.
        let is_kept = found.is_some_and(|found| self.is_kept(inode, &found.metadata));
        let mtime = attributes.mtime.filter(|_| !is_kept);
        let at = FilePath::new(0, name.as_bytes());
        let op = PendingOp { number: Some(number), ..PendingOp::reported(name, ChangeKind::AttributesSet) };
        plan.set_attributes.push((at, Attributes { mtime, ..attributes }, op));
    }

    /// Leaves an existing object unchanged.
    fn keep_unchanged(&mut self, name: &Name, kind: &Kind, size_excluded: bool, found: Option<&FileInfo>) {
        let size = if let Kind::File(content) = kind { content.size() } else { 0 };
        // Sparse files may claim more bytes in total than fit into the counter.
        self.unchanged_bytes = self.unchanged_bytes.saturating_add(size);
        match size_excluded {
            // A run without the size limit may resume its partial file.
            true => drop(self.finalize.size_excluded.add(name)),
            false => self.discard_leftover(name),
        }
        self.peer.totals.unchanged += 1;
        self.add_found_to_manifest(name, found);
    }

    /// Returns why an existing object cannot be replaced: it is a directory, or a special file that
    /// the user named as the destination of a file (`numaio copy FILE /dev/null`).
    fn blocking_fault(&self, wanted: &Kind, found: &FileInfo) -> Option<Fault> {
        let there = &found.metadata;
        if found.is_link_destination {
            return Some(blocked("this link points to the object that it would replace, or into it"));
        }
        let is_named = self.options.alias.is_some() && !is_alike(wanted, there.kind);
        let what = match there.kind {
            FileKind::Directory => return Some(self.blocked_by_directory()),
            FileKind::BlockDevice(..) | FileKind::CharacterDevice(..) if is_named => "a device",
            FileKind::Fifo if is_named => "a pipe",
            FileKind::Socket if is_named => "a socket",
            _ => return None,
        };
        Some(blocked(&format!("{what} with this name exists")))
    }

    /// Returns the fault for a directory that blocks another object.
    pub(super) fn blocked_by_directory(&self) -> Fault {
        blocked(match self.options.delete && !self.options.filter.is_empty() {
            true => "a directory with this name exists, and filter rules may protect its contents",
            false => "a directory with this name exists",
        })
    }

    /// Discards a leftover partial file of a name that is not written.
    fn discard_leftover(&mut self, name: &Name) {
        if !self.options.dry_run {
            self.resume_log.discard_leftover(name);
        }
    }

    fn decide_directory(
        &mut self,
        number: FileNumber,
        name: Name,
        inode: Inode,
        found: Option<&FileInfo>,
        directories: &mut Vec<(NewObject, PendingOp)>,
    ) {
        self.finalize.add_source_directory(&name, self.options.delete);
        if name != Name::root() {
            self.discard_leftover(&name);
        }
        let is_there = found.is_some_and(|found| found.metadata.kind == FileKind::Directory);
        if is_there && (self.is_created_destination(&name) || self.differs(&inode, found)) {
            self.finalize.attributes_set.add(&name);
        } else if is_there {
            self.peer.totals.unchanged += 1;
        } else if found.is_none() {
            self.new_directories.push(&name);
        }
        // Existing directories may be inaccessible until the end. A destination created just before
        // is treated like other new directories.
        let mode = self.is_created_destination(&name).then_some(UNFINISHED_DIRECTORY_MODE);
        let making = NewObject {
            at: FilePath::new(0, name.as_bytes()),
            object: crate::port::Object::Directory,
            attributes: Attributes { mode, ..Attributes::default() },
        };
        let action = (!is_there).then_some(ChangeKind::Created);
        let op = PendingOp { number: Some(number), action, ..PendingOp::unreported(name.clone()) };
        directories.push((making, op));
        let keep = self.options.preserve.modes;
        let stays = found.filter(|found| {
            is_there && !keep && !self.is_created_destination(&name) && !is_unfinished(&found.metadata)
        });
        let stays = stays.and_then(|found| Mode::new(found.metadata.mode).ok());
        if stays.is_none() && !keep {
            self.finalize.masked.add(&name);
        }
        let mode = stays.unwrap_or(inode.mode);
        self.finalize.directories.push(Entry { name, object: Object::New(Inode { mode, ..inode }) });
    }

    /// Decides a regular file whose data must be transferred.
    fn decide_file(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: Inode,
        content: Content,
        mut attributes: Attributes,
        found: Option<&FileInfo>,
        plan: &mut BatchPlan,
    ) {
        // Writing to a file with several hard links would change files outside of the destination.
        let is_alone = |found: &FileInfo| found.metadata.kind == FileKind::File && found.metadata.links < 2;
        let in_place = self.options.in_place && found.is_none_or(is_alone);
        if self.active_names.contains(&name) {
            return self.fail(
                number,
                &name,
                &Fault::new(FaultKind::Exists, "the source sent this name twice"),
            );
        }
        if !in_place && !self.options.preserve.modes {
            // Set-ID bits of the replaced file belong to its owner.
            attributes.mode = attributes.mode.map(|mode| mode & !0o6000);
        }
        let end = FilePath::new(0, name.as_bytes());
        let at = match in_place {
            true => end.clone(),
            false => self.resume_log.partial(&name),
        };
        plan.beside |= !in_place;
        let begin = if in_place { OpenMode::InPlace } else { OpenMode::Fresh };
        let size = content.size();
        let expected = expected_state((size, attributes.mtime), found);
        let left = blocks_of(&content);
        if left.is_empty() || self.options.dry_run {
            let settle = self.settle(size, attributes, end);
            let put = FileWrite { settle: Some(settle), ..FileWrite::new(at, begin) };
            return self.plan_without_data((number, name), put, bytes_of(&left), expected, plan);
        }
        let one_part = size <= crate::port::BLOCK as u64;
        let key = if in_place { None } else { self.resume_log.key(&name, &inode, &content) };
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
            expected,
        };
        let resumed = self.apply_journal(&mut file);
        self.discard_other_versions(&file.name, in_place, file.key.filter(|_| resumed));
        plan.prepared.answers.insert(number.get(), needed(&file, resumed));
        if !one_part {
            let begin = if resumed { OpenMode::Continue } else { begin };
            let held = if resumed { recorded_ranges(&file) } else { Vec::new() };
            plan.puts.push(FileWrite { held, ..FileWrite::new(file.at.clone(), begin) });
            plan.prepared.files.push((number, begin));
        }
        self.active_names.insert(file.name.clone());
        self.incoming.insert(number.get(), file);
    }

    /// Plans a file that needs no data: an empty one, or any in a dry run.
    fn plan_without_data(
        &mut self,
        (number, name): (FileNumber, Name),
        put: FileWrite,
        bytes: u64,
        expected: Option<(u64, Option<Stamp>)>,
        plan: &mut BatchPlan,
    ) {
        let in_place = put.begin == OpenMode::InPlace;
        if !self.options.dry_run {
            self.discard_other_versions(&name, in_place, None);
        }
        self.peer.totals.size = self.peer.totals.size.saturating_add(bytes);
        let op = PendingOp {
            number: Some(number),
            bytes,
            expected,
            ..PendingOp::reported(name, ChangeKind::Copied)
        };
        plan.empty.push((put, PendingOp { is_file: true, replaces: !in_place, ..op }));
    }

    /// Invalidates records of other versions of a file, which is overwritten or removed.
    fn discard_other_versions(&mut self, name: &Name, in_place: bool, resumed: Option<FileNumber>) {
        match in_place {
            true => self.resume_log.discard_leftover(name),
            false => self.resume_log.invalidate_versions(name, resumed),
        }
    }

    /// Removes the ranges that the journal lists as durable; returns whether there are any.
    fn apply_journal(&mut self, file: &mut Incoming) -> bool {
        let Some(key) = file.key else { return false };
        let Some(left) = self.resume_log.missing(key, &in_whole_blocks(&file.content)) else { return false };
        if left == file.left {
            return false;
        }
        // In eager mode the source sends everything; too many extents cannot be requested.
        if self.options.eager || left.intervals() > MAX_EXTENTS {
            return false;
        }
        file.left = left;
        true
    }

    pub(super) fn settle(&self, size: u64, attributes: Attributes, name: FilePath) -> FileCompletion {
        FileCompletion { size, attributes, name, sync: self.options.sync == super::SyncMode::File }
    }

    /// Enqueues a plan. Partial files are started only when the journal exists, so that later runs
    /// find them.
    fn enqueue_plan(&mut self, plan: BatchPlan) {
        if !self.options.dry_run && plan.beside && plan.writes() {
            self.resume_log.require_journal();
        }
        self.finalize.awaiting_journal.push(plan.into());
        self.start_pending_plans();
    }

    /// Starts waiting plans once the journal on disk allows it.
    fn start_pending_plans(&mut self) {
        while self.resume_log.may_start_files() {
            let Some(PendingPlan(plan)) = self.finalize.awaiting_journal.pop() else { return };
            self.start_plan(*plan);
        }
    }

    fn start_plan(&mut self, plan: BatchPlan) {
        let BatchPlan { prepared, puts, empty, make, set_attributes, .. } = plan;
        if self.options.dry_run {
            self.report_dry_run(empty.into_iter().map(|(_, op)| op));
            self.report_dry_run(make.into_iter().map(|(_, op)| op));
            self.report_dry_run(set_attributes.into_iter().map(|(_, _, op)| op));
            return self.send_answers(prepared.answers);
        }
        let hash = self.options.hash.function();
        if !empty.is_empty() {
            let (puts, pending_ops) = empty.into_iter().unzip();
            let ticket = self.peer.submit(Operation::Write { puts, data: None, hash, packed: None });
            self.pending_ops.submitted(ticket, pending_ops);
        }
        if !make.is_empty() {
            let (makings, pending_ops) = make.into_iter().unzip();
            let ticket = self.peer.submit(Operation::Create(makings));
            self.pending_ops.submitted(ticket, pending_ops);
        }
        if !set_attributes.is_empty() {
            let (all, pending_ops) =
                set_attributes.into_iter().map(|(at, attributes, op)| ((at, attributes), op)).unzip();
            let ticket = self.peer.submit(Operation::SetAttributes(all));
            self.pending_ops.submitted(ticket, pending_ops);
        }
        if puts.is_empty() {
            return self.send_answers(prepared.answers);
        }
        let ticket = self.peer.submit(Operation::Write { puts, data: None, hash, packed: None });
        self.preparing.insert(ticket, prepared);
    }

    /// Handles started files, or files that could not be started.
    pub(super) fn files_prepared(&mut self, mut prepared: Prepared, results: Vec<Result<(), Fault>>) {
        let mut again = Prepared::default();
        let mut puts = Vec::new();
        for ((number, begin), result) in std::mem::take(&mut prepared.files).into_iter().zip(results) {
            let Some(file) = self.incoming.get_mut(&number.get()) else {
                prepared.answers.insert(number.get(), NeededData::Nothing);
                continue;
            };
            match result {
                Ok(()) => {
                    if begin == OpenMode::Continue {
                        self.peer.totals.resumed +=
                            bytes_of(&blocks_of(&file.content)) - bytes_of(&file.left);
                    }
                }
                Err(_) if begin == OpenMode::Continue => {
                    // The partial file was removed, or cannot be trusted.
                    file.left = blocks_of(&file.content);
                    self.resume_log.invalidate_versions(&file.name, None);
                    let at = file.at.clone();
                    let begin = OpenMode::Fresh;
                    puts.push(FileWrite::new(at, begin));
                    again.files.push((number, begin));
                    prepared.answers.remove(&number.get());
                    again.answers.insert(number.get(), NeededData::All);
                }
                Err(fault) => {
                    prepared.answers.insert(number.get(), NeededData::Nothing);
                    let name = file.name.clone();
                    self.fail(number, &name, &fault);
                }
            }
        }
        if !puts.is_empty() {
            let again = BatchPlan { prepared: again, puts, ..BatchPlan::default() };
            self.finalize.awaiting_journal.push(again.into());
        }
        // Completely resumed files only need their final names.
        let answered: Vec<u64> = prepared.answers.keys().copied().collect();
        self.send_answers(prepared.answers);
        answered.into_iter().for_each(|number| self.settle_if_complete(number));
    }

    fn send_answers(&mut self, answers: BTreeMap<u64, NeededData>) {
        for number in answers.keys() {
            if let Some(file) = self.incoming.get_mut(number) {
                file.answered = true;
                self.peer.totals.size = self.peer.totals.size.saturating_add(bytes_of(&file.left));
            }
        }
        self.send_requests(answers);
    }

    /// Sends requests to the source.
    pub(super) fn send_requests(&mut self, answers: BTreeMap<u64, NeededData>) {
        let mut wants: Vec<DataRequest> = Vec::new();
        for (number, what) in answers {
            let Ok(first) = FileNumber::new(number) else { continue };
            match wants.last_mut() {
                Some(last) if last.first.get() + last.count == number && last.what == what => last.count += 1,
                _ => wants.push(DataRequest { first, count: 1, what }),
            }
        }
        let mut rest = wants.as_slice();
        while !rest.is_empty() {
            // Few enough extents for one frame.
            let (some, more) =
                rest.split_at(rest.len().min(if has_extents(rest) { 4 } else { MAX_REQUESTS }));
            rest = more;
            match DataRequests::new(some.to_vec()) {
                Ok(wants) => self.peer.send(&Frame::DataRequests(wants)),
                Err(error) => self.abort(crate::wire::Reason::Other, &error.to_string()),
            }
        }
    }

    pub(super) fn report_dry_run(&mut self, pending_ops: impl Iterator<Item = PendingOp>) {
        pending_ops.for_each(|op| self.op_done(op, Ok(())));
    }

    pub(super) fn op_done(&mut self, op: PendingOp, result: Result<(), Fault>) {
        let PendingOp { name, number, action, bytes, is_file, replaces, expected } = op;
        match (result, number) {
            (Ok(()), _) => {
                let Some(action) = action else { return };
                if is_file {
                    self.add_to_manifest(&name);
                }
                self.finalize.note_replacement(&name, self.options.dry_run && replaces);
                self.record_change(name, action, bytes);
            }
            // The content is correct.
            (Err(fault), Some(number)) if action == Some(ChangeKind::AttributesSet) => {
                let about = crate::wire::ProblemSubject::File(number, name);
                self.peer.report_problem(about, crate::report::reason(fault.why), &fault.text);
            }
            (Err(fault), Some(number)) => {
                self.fail(number, &name, &fault);
                if expected.is_some() {
                    self.finalize.record_failure(&name, expected);
                }
            }
            (Err(fault), None) => {
                let reason = crate::report::reason(fault.why);
                self.peer.report_problem(crate::wire::ProblemSubject::Name(name), reason, &fault.text);
            }
        }
    }
}

impl BatchPlan {
    /// Returns whether any file is written.
    fn writes(&self) -> bool {
        !self.empty.is_empty() || self.prepared.answers.values().any(|what| *what != NeededData::Nothing)
    }
}

/// Returns the data that is needed of a started file.
fn needed(file: &Incoming, resumed: bool) -> NeededData {
    let extents: Vec<Extent> = file.left.iter().collect();
    match resumed {
        false => NeededData::All,
        true if extents.is_empty() => NeededData::Nothing,
        true => NeededData::Some(extents),
    }
}

fn has_extents(wants: &[DataRequest]) -> bool {
    wants.iter().any(|want| matches!(want.what, NeededData::Some(_)))
}

/// Returns whether an object is a directory and not a source directory or an ancestor of one.
pub(super) fn is_removable_directory(protected: &ProtectedPaths, metadata: &FileStat) -> bool {
    metadata.kind == FileKind::Directory && !protected.contains_source(metadata)
}

/// Rejects names that are reserved for the sink and case-insensitive duplicates.
fn check_name(case_folding: &CaseFolding, name: &Name, duplicate: bool) -> Result<(), Fault> {
    match (case_folding.key(name).split(|&byte| byte == b'/').any(is_own_file), duplicate) {
        (true, _) => Err(Fault::new(FaultKind::Unsupported, "this name is reserved for numaio")),
        (_, true) => Err(Fault::new(
            FaultKind::Exists,
            "it is a case-insensitive duplicate of another name in the source",
        )),
        (false, false) => Ok(()),
    }
}

/// Returns the size and mtime of a new object unless the old one has both: they then show whether
/// the new one exists.
fn expected_state(to_be: (u64, Option<Stamp>), found: Option<&FileInfo>) -> Option<(u64, Option<Stamp>)> {
    let had = found.map(|found| (found.metadata.size, Some(found.metadata.mtime)));
    (had != Some(to_be)).then_some(to_be)
}

/// Returns whether an interrupted run created this directory. Its set-group-ID bit may be
/// inherited.
fn is_unfinished(metadata: &FileStat) -> bool {
    metadata.mode & !0o2000 == UNFINISHED_DIRECTORY_MODE
}

/// Returns the blocks of a file to send.
fn blocks_of(content: &Content) -> ExtentSet {
    let mut blocks = ExtentSet::default();
    in_blocks(content.extents(), content.size()).for_each(|block| blocks.insert(block));
    blocks
}

/// Returns the recorded data ranges of a file, unless its entry omits holes.
fn recorded_ranges(file: &Incoming) -> Vec<Range<u64>> {
    if file.content.may_omit_holes() {
        return Vec::new();
    }
    let mut held = ExtentSet::default();
    file.content.extents().for_each(|extent| held.insert(extent));
    file.left.iter().for_each(|extent| held.remove(extent));
    held.iter().map(|extent| extent.start()..extent.end()).collect()
}

/// Returns the fault for an object that must not be replaced.
fn blocked(text: &str) -> Fault {
    Fault::new(FaultKind::Exists, text)
}

fn bytes_of(extents: &ExtentSet) -> u64 {
    extents.iter().map(Extent::length).sum()
}

/// Widens the data of a file to complete blocks, as it is sent and recorded.
fn in_whole_blocks(content: &Content) -> Content {
    let size = content.size();
    Content::from_extents(size, in_blocks(content.extents(), size)).unwrap_or_else(|_| content.clone())
}

fn port_object(kind: &Kind, devices: bool) -> Result<crate::port::Object, Fault> {
    use crate::port::Object;
    Ok(match kind {
        Kind::Symlink(target) => Object::Symlink(target.as_bytes().into()),
        Kind::Fifo => Object::Fifo,
        Kind::CharacterDevice(device) if devices => Object::CharacterDevice(device.major(), device.minor()),
        Kind::BlockDevice(device) if devices => Object::BlockDevice(device.major(), device.minor()),
        Kind::CharacterDevice(_) | Kind::BlockDevice(_) => {
            return Err(Fault::new(FaultKind::Unsupported, "device files are not created here"));
        }
        Kind::File(_) | Kind::Directory => return Err(Fault::new(FaultKind::Other, "not a special file")),
    })
}

/// A plan that waits to be started.
#[derive(Debug)]
pub(super) struct PendingPlan(Box<BatchPlan>);

impl From<BatchPlan> for PendingPlan {
    fn from(plan: BatchPlan) -> Self {
        Self(Box::new(plan))
    }
}
