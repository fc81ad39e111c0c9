//! Deciding received batches in order, and starting their plans.

use super::batches::{IncomingBatch, LookupResult, UndecidedEntry};
use super::decide::{check_name, expected_state, Decision};
use super::incoming_file::{FileTarget, IncomingFile};
use super::itemize::Update;
use super::pending_ops::PendingOp;
use super::plan::{BatchPlan, Prepared};
use super::snapshots::{SnapshotFile, SnapshotLink};
use super::Sink;
use crate::entry::{Content, Entry, FileNumber, Inode, Kind, Object};
use crate::extent::Extent;
use crate::name::Name;
use crate::port::{
    Attributes, Fault, FaultKind, FileInfo, FileKind, FilePath, FileWrite, NewObject, Object as PortObject,
    OpenMode,
};
use crate::unpreserved::is_complete;
use crate::wire::ChangeKind;
use crate::wire::NeededData;
use std::collections::BTreeMap;

impl<B: AsRef<[u8]>> Sink<B> {
    /// Decides batches with complete lookups in order: directories must exist before their
    /// contents.
    pub(super) fn process_batches(&mut self) {
        self.start_plans();
        while self.may_decide() {
            let blockers = self.batches.take_blockers(&self.options);
            self.remove_reported(blockers);
            let Some(batch) = self.batches.pop(self.pending_ops.is_empty()) else { return };
            self.decide_batch(batch);
        }
    }

    /// Returns whether the first batch can be decided, and earlier ones do not delay it.
    fn may_decide(&self) -> bool {
        !self.plans.is_creating_directories()
            && self.hashes.has_capacity()
            && self.resume_log.has_capacity()
            && self.batches.front().is_some_and(|batch| self.hashes.are_complete(batch.range()))
    }

    fn decide_batch(&mut self, batch: IncomingBatch) {
        let mut plan = BatchPlan::default();
        for UndecidedEntry { number, entry, is_duplicate, found, snapshots } in batch.into_entries() {
            plan.request_nothing(number);
            let Entry { name, object } = entry;
            // Whatever happens to it here, the source has it.
            match &object {
                Object::New(Inode { kind: Kind::Directory, .. }) => self.source_names.add_directory(&name),
                Object::New(_) | Object::HardLink(_) => self.source_names.add(&name),
            }
            if self.options.removal_limits.only {
                continue;
            }
            if let Err(fault) = check_name(&name, is_duplicate, self.options.names) {
                self.fail(number, &name, &fault);
                continue;
            }
            if !self.options.dry_run {
                self.resume_log.discard_of_abandoned_shards(&name);
            }
            match object {
                Object::HardLink(_) => {
                    self.discard_leftover(&name);
                    self.stored.expect_link(&name, number);
                    self.links.push(Entry { name, object });
                }
                Object::New(inode) => {
                    self.not_kept.count_entry(&name, &inode, &mut self.unpreserved);
                    self.decide_entry((number, name), inode, (found, snapshots), &mut plan);
                }
            }
        }
        let directories = plan.take_directories();
        if directories.is_empty() || self.options.dry_run {
            self.report_dry_run(directories.into_iter().map(|(_, op)| op));
            return self.enqueue_plan(plan);
        }
        self.plans.create_directories(directories, plan, &mut self.peer);
    }

    fn decide_entry(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: Inode,
        (found, snapshots): (LookupResult, Vec<SnapshotFile>),
        plan: &mut BatchPlan,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(fault) => return self.fail(number, &name, &fault),
        };
        let found = found.as_ref();
        if self.options.existing.skips(inode.kind == Kind::Directory, found) {
            return self.skip_by_policy((number, &name), &inode, found);
        }
        if inode.kind == Kind::Directory {
            return self.plan_directory((number, name), inode, found, plan);
        }
        let in_its_place = found.filter(|_| !self.options.is_size_excluded(&inode.kind));
        if let Some(fault) = in_its_place.and_then(|found| self.options.blocking_fault(&inode.kind, found)) {
            return self.fail(number, &name, &fault);
        }
        // The source failed to hash it, and reported that.
        let Some(equal) = self.hashes.take_result(number) else {
            return self.results.add_failure(&name, None);
        };
        let decision = self.options.decide(&inode, found, equal);
        if matches!(decision, Decision::Receive(..) | Decision::Create(..)) {
            self.plan_backup((number, &name), found, plan);
        }
        match decision {
            Decision::Keep { is_newer } => {
                if !is_newer && !self.options.is_size_excluded(&inode.kind) {
                    self.stored.add(number);
                }
                self.keep_unchanged(&name, &inode.kind, is_newer, found);
            }
            Decision::SetAttributes(attributes) => {
                self.discard_leftover(&name);
                self.hashes.add_found_to_manifest(&name, found, &self.options);
                let at = FilePath::new(0, name.as_bytes());
                let itemized = self.options.itemize(Update::Attributes, &inode, found);
                let op = PendingOp { itemized, ..PendingOp::reported(name, ChangeKind::AttributesSet) };
                plan.set_attributes(at, attributes, PendingOp { number: Some(number), ..op });
            }
            Decision::Receive(content, attributes) => {
                let target = self.file_target(name, &inode, content, attributes, found);
                match self.options.shared_object(&inode, snapshots, found.is_some()) {
                    Some(object) if self.may_share(&object) => {
                        let link = self.options.snapshot_link(number, object, &inode, target);
                        plan.link_to_snapshot(link);
                    }
                    _ => self.plan_file(number, target, plan),
                }
            }
            Decision::Create(object, attributes) => {
                self.discard_leftover(&name);
                let expected = expected_state((0, attributes.mtime), found);
                let at = FilePath::new(0, name.as_bytes());
                let itemized = self.options.itemize(Update::Create, &inode, found);
                let op = PendingOp { itemized, ..PendingOp::reported(name, ChangeKind::Created) };
                let op = PendingOp { number: Some(number), expected, replaces: true, ..op };
                plan.create(NewObject { at, object, attributes }, op);
            }
            Decision::Fail(fault) => self.fail(number, &name, &fault),
        }
    }

    /// Leaves an existing object unchanged.
    fn keep_unchanged(&mut self, name: &Name, kind: &Kind, is_newer: bool, found: Option<&FileInfo>) {
        if is_newer {
            self.results.add_newer(name);
        }
        match self.options.is_size_excluded(kind) {
            // A run without the size limit may resume its partial file.
            true => self.results.add_size_excluded(name),
            false => self.discard_leftover(name),
        }
        let size = if let Kind::File(content) = kind { content.size() } else { 0 };
        self.changes.record_unchanged(size, &mut self.peer);
        self.hashes.add_found_to_manifest(name, found, &self.options);
    }

    /// Keeps the object that an entry replaces, if backups are requested.
    fn plan_backup(
        &self,
        (number, name): (FileNumber, &Name),
        found: Option<&FileInfo>,
        plan: &mut BatchPlan,
    ) {
        if let Some((making, op)) = self.options.backup(name, found) {
            plan.back_up((making, PendingOp { number: Some(number), ..op }));
        }
    }

    /// Skips an entry because of [`ExistingPolicy`](super::ExistingPolicy).
    fn skip_by_policy(
        &mut self,
        (number, name): (FileNumber, &Name),
        inode: &Inode,
        found: Option<&FileInfo>,
    ) {
        // Its contents are skipped, too: they do not exist, or would be inside of another object.
        if inode.kind == Kind::Directory {
            self.results.add_skipped(name);
            return self.changes.record_unchanged(0, &mut self.peer);
        }
        let equal = self.hashes.take_result(number).unwrap_or(false);
        if !found.is_some_and(|found| self.options.is_same(inode, found, equal)) {
            self.results.add_skipped(name);
        }
        self.keep_unchanged(name, &inode.kind, false, found);
    }

    fn plan_directory(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: Inode,
        found: Option<&FileInfo>,
        plan: &mut BatchPlan,
    ) {
        if name != Name::root() {
            self.discard_leftover(&name);
        }
        if found.is_none() {
            self.batches.add_new_directory(&name);
        }
        let directory = self.directories.add((number, name), inode, found, &self.options);
        if directory.is_unchanged {
            self.changes.record_unchanged(0, &mut self.peer);
        }
        plan.add_directory(directory);
    }

    /// Plans a regular file whose data must be transferred.
    fn plan_file(&mut self, number: FileNumber, target: FileTarget, plan: &mut BatchPlan) {
        if self.incoming.contains_name(&target.name) {
            let fault = Fault::new(FaultKind::Exists, "the source sent this name twice");
            return self.fail(number, &target.name, &fault);
        }
        let mut file = IncomingFile::new(target);
        if file.missing_bytes() == 0 || self.options.dry_run {
            return self.plan_without_data(number, file, plan);
        }
        let resumed = file.resume(&self.resume_log, &self.options);
        self.discard_other_versions(file.target(), resumed);
        plan.receive(number, &file, resumed);
        self.incoming.insert(number, file);
    }

    /// Returns where and how a file is written.
    fn file_target(
        &self,
        name: Name,
        inode: &Inode,
        content: Content,
        mut attributes: Attributes,
        found: Option<&FileInfo>,
    ) -> FileTarget {
        // Writing to a file with several hard links would change files outside of the destination.
        let is_alone = |found: &FileInfo| found.metadata.kind == FileKind::File && found.metadata.links < 2;
        let in_place = self.options.in_place && found.is_none_or(is_alone);
        if !in_place && !self.options.preserve.modes {
            // Set-ID bits of the replaced file belong to its owner.
            attributes.mode = attributes.mode.map(|mode| mode & !0o6000);
        }
        let block = self.options.block;
        let (at, key) = match in_place {
            true => (FilePath::new(0, name.as_bytes()), None),
            // A file of one block is written at once, and never resumed.
            false if content.size() <= block.length() => (self.resume_log.partial(&name), None),
            false => (self.resume_log.partial(&name), self.resume_log.key(&name, inode, &content)),
        };
        let expected = expected_state((content.size(), attributes.mtime), found);
        let itemized = self.options.itemize(Update::Transfer, inode, found);
        let announced_size = content.size();
        let in_order = self.options.in_order;
        FileTarget {
            name,
            content,
            announced_size,
            block,
            at,
            in_place,
            in_order,
            attributes,
            key,
            expected,
            itemized,
        }
    }

    /// Plans a file that needs no data: an empty one, or any in a dry run.
    fn plan_without_data(&mut self, number: FileNumber, file: IncomingFile, plan: &mut BatchPlan) {
        let bytes = file.missing_bytes();
        let target = file.into_target();
        if !self.options.dry_run {
            self.discard_other_versions(&target, false);
        }
        self.peer.totals.size = self.peer.totals.size.saturating_add(bytes);
        let begin = if target.in_place { OpenMode::InPlace } else { OpenMode::Fresh };
        let settle = Some(target.completion(&self.options));
        let op = PendingOp {
            number: Some(number),
            bytes,
            is_file: true,
            replaces: !target.in_place,
            expected: target.expected,
            itemized: target.itemized,
            ..PendingOp::reported(target.name, ChangeKind::Copied)
        };
        plan.write_empty(FileWrite { settle, ..FileWrite::new(target.at, begin) }, op);
    }

    /// Returns whether an object is created that shares its data: clones are given up when the file
    /// system refuses one.
    fn may_share(&self, object: &PortObject) -> bool {
        !(self.clones_refused && matches!(object, PortObject::Clone(..)))
    }

    /// Handles created hard links to snapshots. Files whose links were refused are received.
    pub(super) fn snapshot_links_created(
        &mut self,
        links: Vec<SnapshotLink>,
        results: Vec<Result<(), Fault>>,
    ) {
        let mut plan = BatchPlan::default();
        let must_clone = self.options.clones.as_ref().is_some_and(|clones| clones.must_clone);
        for (SnapshotLink { number, target, op, making }, result) in links.into_iter().zip(results) {
            plan.request_nothing(number);
            let is_clone = matches!(making.object, PortObject::Clone(..));
            match result {
                Err(fault) if is_clone && must_clone && !is_complete(&fault) => {
                    self.fail(number, &target.name, &fault);
                }
                Err(fault) if !is_complete(&fault) => {
                    // A changed file or a full disk does not prevent other clones.
                    let is_refused = !matches!(fault.why, FaultKind::Changed | FaultKind::NoSpace);
                    self.clones_refused |= is_clone && is_refused;
                    self.plan_file(number, target, &mut plan);
                }
                result => {
                    self.discard_leftover(&target.name);
                    self.op_done(op, result);
                }
            }
        }
        self.enqueue_plan(plan);
    }

    /// Discards a leftover partial file of a name that is not written.
    fn discard_leftover(&mut self, name: &Name) {
        if !self.options.dry_run {
            self.resume_log.discard_leftover(name);
        }
    }

    /// Invalidates records of other versions of a file, which is overwritten or removed.
    fn discard_other_versions(&mut self, target: &FileTarget, resumed: bool) {
        match target.in_place {
            true => self.resume_log.discard_leftover(&target.name),
            false => self.resume_log.invalidate_versions(&target.name, target.key.filter(|_| resumed)),
        }
    }

    /// Handles the creation of the directories of a plan, and enqueues the rest of it.
    pub(super) fn directories_created(
        &mut self,
        ops: Vec<PendingOp>,
        results: Vec<Result<(), Fault>>,
        mut plan: BatchPlan,
    ) {
        for (op, result) in ops.into_iter().zip(results) {
            let failed = op.number.filter(|_| result.is_err());
            self.op_done(op, result);
            failed.into_iter().for_each(|number| plan.cancel(number));
        }
        self.enqueue_plan(plan);
    }

    /// Enqueues a plan. Partial files are started only when the journal exists, so that later runs
    /// find them.
    fn enqueue_plan(&mut self, plan: BatchPlan) {
        if !self.options.dry_run && plan.needs_journal() {
            self.resume_log.require_journal();
        }
        self.plans.push(plan);
        self.start_plans();
    }

    /// Starts waiting plans once the journal on disk allows it.
    fn start_plans(&mut self) {
        while let Some(plan) = self.plans.next(&self.resume_log) {
            let answers = match self.options.dry_run {
                true => {
                    let (ops, answers) = plan.into_dry_run();
                    self.report_dry_run(ops);
                    answers
                }
                false => self.plans.start(plan, &self.options, &mut self.peer, &mut self.pending_ops),
            };
            self.send_answers(answers);
        }
    }

    /// Handles started files, or files that could not be started.
    pub(super) fn files_started(&mut self, prepared: Prepared, results: Vec<Result<(), Fault>>) {
        let Prepared { mut answers, files } = prepared;
        let mut again = BatchPlan::default();
        for ((number, begin), result) in files.into_iter().zip(results) {
            let Some(file) = self.incoming.get_mut(number) else {
                answers.insert(number, NeededData::Nothing);
                continue;
            };
            match result {
                Ok(()) if begin == OpenMode::Continue => {
                    let blocks = file.resumed_blocks(&self.resume_log);
                    match blocks.is_empty() {
                        true => self.peer.totals.resumed += file.resumed_bytes(),
                        false => {
                            answers.remove(&number);
                            self.resume_checks.push(number, &file.target().at, blocks);
                        }
                    }
                }
                Ok(()) => {}
                Err(_) if begin == OpenMode::Continue => {
                    // The partial file was removed, or cannot be trusted.
                    file.restart();
                    self.resume_log.invalidate_versions(&file.target().name, None);
                    again.restart(number, file.target().at.clone());
                    answers.remove(&number);
                }
                Err(fault) => {
                    answers.insert(number, NeededData::Nothing);
                    let name = file.target().name.clone();
                    self.fail(number, &name, &fault);
                }
            }
        }
        if !again.starts_nothing() {
            self.plans.push(again);
        }
        // Completely resumed files only need their final names.
        let answered: Vec<FileNumber> = answers.keys().copied().collect();
        self.send_answers(answers);
        answered.into_iter().for_each(|number| self.settle_if_complete(number));
    }

    /// Requests the rest of a partial file whose blocks were checked.
    pub(super) fn resume_checked(&mut self, number: FileNumber, damaged: &[Extent]) {
        let needed = match self.incoming.get_mut(number) {
            Some(file) => {
                file.add_damaged(damaged);
                self.peer.totals.resumed += file.resumed_bytes();
                file.needed(true)
            }
            None => NeededData::Nothing,
        };
        self.send_answers(BTreeMap::from([(number, needed)]));
        self.settle_if_complete(number);
    }

    fn send_answers(&mut self, answers: BTreeMap<FileNumber, NeededData>) {
        for number in answers.keys() {
            if let Some(file) = self.incoming.get_mut(*number) {
                file.answer();
                self.peer.totals.size = self.peer.totals.size.saturating_add(file.missing_bytes());
            }
        }
        self.send_requests(answers);
    }
}
