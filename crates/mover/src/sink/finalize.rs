//! Finalization after all data is received: hard links, removals, directory attributes and sync.

use super::case_folding::CaseFolding;
use super::decide::{is_removable_directory, PendingPlan};
use super::pending_ops::PendingOp;
use super::resume_log::CloseAction;
use super::{Sink, SyncMode, MAX_OPEN_ENTRIES};
use crate::entry::{Entry, Object};
use crate::name::Name;
use crate::name_set::NameSet;
use crate::own_files::{is_own_file, JOURNAL};
use crate::port::{
    Attributes, Details, Fault, FaultKind, FileInfo, FileKind, FilePath, FileStat, Listing, NameMatching,
    NewObject, Object as Made, Operation, Stamp, Ticket,
};
use crate::report::{ChangeKind, Totals, TransferOutcome};
use crate::wire::{EndTotals, EntryStore, Frame, ProblemSubject, Reason};
use std::collections::{HashMap, HashSet};

/// Maximum names per listing of a directory in which entries may be removed.
const NAMES: usize = 512;

/// The object with a name, if any.
type LookupResult = Result<Option<FileInfo>, Fault>;

/// How to treat a hard link.
enum LinkDecision {
    /// It exists already, or must be left unchanged.
    Unchanged,
    /// It is not created, for this reason.
    Refuse(&'static str),
    Create,
}

/// The phases of finalization, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Linking,
    Removing,
    Closing,
    SettingAttributes,
    Syncing,
    Ending,
}

/// Data collected for the end of the transfer, and the state of finalization.
#[derive(Debug, Default)]
pub(super) struct Finalization {
    phase: Phase,
    /// Whether the source failed to read something: entries that seem extra may exist there.
    pub incomplete: bool,
    /// Hard links to create.
    pub links: EntryStore,
    /// Directories with the attributes to set.
    pub directories: EntryStore,
    /// Directories among them that were created and get the source's mode less restrictions.
    pub masked: NameSet<6>,
    /// Directories among them that existed with other attributes.
    pub attributes_set: NameSet<6>,
    /// Files that would be replaced in a dry run: hard links to the old file would then differ.
    would_be_replaced: NameSet<6>,
    /// The first failed names; of files with received data also the expected size and mtime.
    failed: HashMap<Name, Option<(u64, Option<Stamp>)>>,
    /// Whether there were more failed names.
    failed_others: bool,
    /// Files that are skipped because of their size.
    pub size_excluded: NameSet<6>,
    /// Files that are skipped because they are newer here.
    pub newer: NameSet<6>,
    /// Directories that blocked hard links and were removed.
    cleared: HashSet<Name>,
    /// Operations and a plan that wait for the creation of directories.
    pub awaiting_directories: Option<(Vec<PendingOp>, PendingPlan)>,
    /// Plans that wait for the journal.
    pub awaiting_journal: Vec<PendingPlan>,
    /// Duplicate detection.
    pub case_folding: CaseFolding,
    /// Names of the source, as the destination compares them; only if extra entries are removed.
    source_names: NameSet<6>,
    /// Directories among these.
    source_directories: NameSet<6>,
    /// Directories that are, or are inside, a source directory.
    protected_directories: HashSet<Name>,
    removal: Option<Removal>,
    /// Whether a partial file was kept because it may belong to another transfer or was not
    /// visible.
    partials_kept: bool,
    /// Whether all partial files of other transfers were removed.
    all_partials_removed: bool,
    listing: Option<(Ticket, Name)>,
    /// The lookup of hard links in flight.
    pub link_lookup: Option<(Ticket, Vec<Entry>)>,
}

/// Directories in which entries may be removed, the next one last.
#[derive(Debug)]
struct Removal {
    steps: Vec<RemovalStep>,
    /// Extra directories that contain entries to keep.
    kept: HashSet<Name>,
}

#[derive(Debug)]
enum RemovalStep {
    /// List a directory, or continue its listing.
    List(Name, Option<u64>),
    /// Remove an extra directory, unless some of its contents were kept.
    RemoveDirectory(Name),
}

/// A listed directory.
struct ListedDirectory {
    directory: Name,
    /// Whether entries may be removed: the source has the directory, or it is extra itself.
    may_remove: bool,
    /// Whether more names are equivalent in it than at the destination itself.
    folds_more_names: bool,
    /// Whether it is inside a source directory.
    is_read: bool,
}

/// How to treat an entry of a listed directory.
enum RemovalDecision {
    Descend,
    Keep,
    RemoveTree,
    Remove,
}

impl Finalization {
    /// Creates the state before the first entry.
    pub fn new(names: NameMatching) -> Self {
        Self { case_folding: CaseFolding::new(names), ..Self::default() }
    }

    /// Returns whether no listing or lookup is in flight.
    pub fn is_idle(&self) -> bool {
        self.listing.is_none() && self.link_lookup.is_none()
    }

    /// Records a name of the source that is not a directory.
    pub fn add_source_name(&mut self, name: &Name, delete: bool) {
        if delete {
            self.source_names.add(self.case_folding.key(name));
        }
    }

    /// Returns whether the source has this name.
    fn is_source_name(&self, name: &Name) -> bool {
        self.source_names.has(self.case_folding.key(name))
    }

    fn is_source_directory(&self, name: &Name) -> bool {
        self.source_directories.has(self.case_folding.key(name))
    }

    /// Records a file that would be replaced, in a dry run.
    pub fn note_replacement(&mut self, name: &Name, dry_run: bool) {
        if dry_run {
            self.would_be_replaced.add(name);
        }
    }

    /// Records a failed name, with the expected size and mtime if it was to be a file.
    pub fn record_failure(&mut self, name: &Name, expected: Option<(u64, Option<Stamp>)>) {
        match self.failed.len() < MAX_OPEN_ENTRIES || self.failed.contains_key(name) {
            true => drop(self.failed.insert(name.clone(), expected)),
            false => self.failed_others = true,
        }
    }

    /// Returns whether a name has its expected content; if it failed, only an attribute may be
    /// missing.
    fn has_expected_content(&self, name: &Name, found: &LookupResult) -> bool {
        let is_it =
            |metadata: &FileStat, (size, mtime)| metadata.size == size && Some(metadata.mtime) == mtime;
        match (self.failed.get(name), found) {
            (None, _) => !self.failed_others,
            (Some(Some(expected)), Ok(Some(found))) => is_it(&found.metadata, *expected),
            _ => false,
        }
    }

    /// Records a directory of the source.
    pub fn add_source_directory(&mut self, name: &Name, delete: bool) {
        if delete {
            let known = self.case_folding.key(name);
            self.source_names.add(&known);
            self.source_directories.add(&known);
        }
    }
}

impl<B: AsRef<[u8]>> Sink<B> {
    /// Performs the next steps of finalization, if all entries and data are processed.
    pub(super) fn continue_finalization(&mut self) {
        let moving = !self.batches.is_empty()
            || !self.finalize.awaiting_journal.is_empty()
            || !self.incoming.is_empty();
        if self.source_end.is_none() || moving {
            return;
        }
        while self.is_idle() && self.peer.outcome.is_none() {
            match self.finalize.phase {
                Phase::Linking => match self.finalize.links.pop() {
                    Some(entries) => self.look_up_links(entries),
                    None => self.finalize.phase = Phase::Removing,
                },
                Phase::Removing => self.continue_removal(),
                Phase::Closing if !self.resume_log.is_finished() => return,
                Phase::Closing => self.close_journal(),
                Phase::SettingAttributes => match self.finalize.directories.pop() {
                    Some(entries) => self.set_directory_attributes(entries),
                    None => self.finalize.phase = Phase::Syncing,
                },
                Phase::Syncing => {
                    if self.options.sync != SyncMode::None && !self.options.dry_run {
                        let ticket = self.peer.submit(Operation::Sync { root: 0 });
                        self.pending_ops.submitted(ticket, vec![unreported_root_op()]);
                    }
                    self.finalize.phase = Phase::Ending;
                }
                Phase::Ending => self.send_end(),
            }
        }
    }

    fn close_journal(&mut self) {
        match self.resume_log.close(self.finalize.all_partials_removed) {
            CloseAction::Write => return self.submit_journal(),
            CloseAction::Keep => {}
            CloseAction::Remove(journal) => self.remove_unreported(journal),
        }
        self.finalize.phase = Phase::SettingAttributes;
    }

    /// Removes a file of the sink itself; only failure is reported.
    fn remove_unreported(&mut self, what: FilePath) {
        let ticket = self.peer.submit(Operation::Remove(vec![what]));
        self.pending_ops.submitted(ticket, vec![unreported_root_op()]);
    }

    fn send_end(&mut self) {
        let Totals { moved, failed, bytes, size, resumed, unchanged, removed, .. } = self.peer.totals;
        self.flush_changes();
        self.peer.send(&Frame::End(EndTotals {
            entries: moved,
            failed,
            bytes,
            size,
            resumed,
            unchanged,
            removed,
        }));
        self.peer.outcome = Some(TransferOutcome::Done);
    }

    /// Looks up hard links and their targets, now that all files have their final content.
    fn look_up_links(&mut self, entries: Vec<Entry>) {
        let path = |name: &Name| FilePath::new(0, name.as_bytes());
        let both = |entry: &Entry| match &entry.object {
            Object::HardLink(to) => [path(&entry.name), path(to)],
            Object::New(_) => [path(&entry.name), path(&entry.name)],
        };
        let at = entries.iter().flat_map(both).collect();
        let (details, links) = (Details::default(), Vec::new());
        let lookup = self.peer.submit(Operation::Stat { at, details, links });
        self.finalize.link_lookup = Some((lookup, entries));
    }

    pub(super) fn create_links(&mut self, entries: Vec<Entry>, found: Vec<LookupResult>) {
        let blocking = self.directories_to_replace(&entries, &found);
        if !blocking.is_empty() {
            if !self.options.dry_run {
                entries.into_iter().for_each(|entry| self.finalize.links.push(entry));
                return self.remove_reported(blocking);
            }
            self.remove_reported(blocking);
        }
        let (mut makings, mut pending_ops) = (Vec::new(), Vec::new());
        for (Entry { name, object }, both) in entries.into_iter().zip(found.chunks(2)) {
            let (Object::HardLink(to), [at, first]) = (object, both) else { continue };
            match self.decide_link(&to, at, first) {
                LinkDecision::Unchanged => {
                    self.peer.totals.unchanged += 1;
                    self.add_found_to_manifest(&name, at.as_ref().ok().and_then(Option::as_ref));
                }
                LinkDecision::Refuse(why) => {
                    let text = format!("not linked: '{to}' {why}");
                    self.peer.report_problem(ProblemSubject::Name(name), Reason::Other, &text);
                }
                LinkDecision::Create if self.is_blocked_by_directory(&name, at) => {
                    let fault = self.blocked_by_directory();
                    self.peer.report_problem(
                        ProblemSubject::Name(name),
                        crate::report::reason(fault.why),
                        &fault.text,
                    );
                }
                LinkDecision::Create => {
                    makings.push(NewObject {
                        at: FilePath::new(0, name.as_bytes()),
                        object: Made::HardLink(FilePath::new(0, to.as_bytes())),
                        attributes: Attributes::default(),
                    });
                    pending_ops.push(PendingOp {
                        is_file: is_file(first),
                        ..PendingOp::reported(name, ChangeKind::Created)
                    });
                }
            }
        }
        if self.options.dry_run {
            return pending_ops.into_iter().for_each(|op| self.op_done(op, Ok(())));
        }
        let ticket = self.peer.submit(Operation::Create(makings));
        self.pending_ops.submitted(ticket, pending_ops);
    }

    /// Returns whether a directory blocks a hard link. A dry run only pretends to remove it.
    fn is_blocked_by_directory(&self, name: &Name, at: &LookupResult) -> bool {
        let is_directory = matches!(at, Ok(Some(found)) if found.metadata.kind == FileKind::Directory);
        is_directory && !(self.options.dry_run && self.finalize.cleared.contains(name))
    }

    /// Decides on a hard link to the file `to`, given the objects with both names.
    fn decide_link(&self, to: &Name, at: &LookupResult, first: &LookupResult) -> LinkDecision {
        let would_be_replaced = self.finalize.would_be_replaced.has(to);
        if self.finalize.size_excluded.has(to) || is_same_file(at, first) && !would_be_replaced {
            return LinkDecision::Unchanged;
        }
        // The target may still be an old file, and the link newer than it.
        if !self.finalize.has_expected_content(to, first) {
            return LinkDecision::Refuse(if self.finalize.failed.contains_key(to) {
                "failed"
            } else {
                "may have failed"
            });
        }
        // The mtime of a file that would be replaced is not known here.
        if self.options.update && !would_be_replaced && is_newer(at, first) {
            return LinkDecision::Unchanged;
        }
        match self.finalize.newer.has(to) {
            true => LinkDecision::Refuse("is newer here"),
            false => LinkDecision::Create,
        }
    }

    /// Returns the directories that block hard links and may be removed; each is tried once.
    fn directories_to_replace(&mut self, entries: &[Entry], found: &[LookupResult]) -> Vec<Name> {
        if !self.may_remove_blockers() {
            return Vec::new();
        }
        let is_removable = |found: &LookupResult| matches!(found, Ok(Some(found)) if is_removable_directory(&self.options.protected, &found.metadata));
        let is_blocked_by_directory = |entry: &Entry, both: &[LookupResult]| match (&entry.object, both) {
            (Object::HardLink(to), [at, first]) => {
                is_removable(at) && matches!(self.decide_link(to, at, first), LinkDecision::Create)
            }
            _ => false,
        };
        let names: Vec<_> = entries
            .iter()
            .zip(found.chunks(2))
            .filter(|(entry, both)| is_blocked_by_directory(entry, both))
            .collect();
        names
            .into_iter()
            .map(|(entry, _)| entry.name.clone())
            .filter(|name| self.finalize.cleared.insert(name.clone()))
            .collect()
    }

    /// Sets the attributes of directories in reverse order, so that each follows its contents.
    fn set_directory_attributes(&mut self, entries: Vec<Entry>) {
        let keep = self.options.preserve;
        let (mut all, mut pending_ops) = (Vec::new(), Vec::new());
        for Entry { name, object } in entries.into_iter().rev() {
            let Object::New(inode) = object else { continue };
            // The failure to create it was reported.
            if self.finalize.failed.contains_key(&name) {
                continue;
            }
            let masked = self.finalize.masked.has(&name);
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
            let action = if self.is_created_destination(&name) {
                ChangeKind::Created
            } else {
                ChangeKind::AttributesSet
            };
            let action = self.finalize.attributes_set.has(&name).then_some(action);
            pending_ops.push(PendingOp { action, ..PendingOp::unreported(name) });
        }
        if self.options.dry_run {
            return self.report_dry_run(pending_ops.into_iter());
        }
        let ticket = self.peer.submit(Operation::SetAttributes(all));
        self.pending_ops.submitted(ticket, pending_ops);
    }

    /// Returns whether this is the destination directory and was created for this transfer.
    pub(super) fn is_created_destination(&self, name: &Name) -> bool {
        self.options.destination_created && *name == Name::root()
    }

    /// Removes entries that the source does not have, directory by directory.
    fn continue_removal(&mut self) {
        if !self.options.delete {
            self.finalize.phase = Phase::Closing;
            return;
        }
        let is_complete = !self.finalize.incomplete && self.peer.totals.failed == 0;
        if !is_complete && self.finalize.removal.is_none() {
            let text = "nothing was deleted: the transfer is incomplete";
            self.peer.report_problem(ProblemSubject::Name(Name::root()), Reason::Other, text);
            self.finalize.phase = Phase::Closing;
            return;
        }
        let root = || Removal { steps: vec![RemovalStep::List(Name::root(), None)], kept: HashSet::new() };
        let removal = self.finalize.removal.get_or_insert_with(root);
        let (directory, more) = match removal.steps.pop() {
            Some(RemovalStep::List(directory, more)) => (directory, more),
            Some(RemovalStep::RemoveDirectory(directory)) if removal.kept.remove(&directory) => {
                return self.keep_directory(directory.parent());
            }
            Some(RemovalStep::RemoveDirectory(directory)) => return self.remove_reported(vec![directory]),
            None => {
                self.finalize.all_partials_removed =
                    !self.finalize.partials_kept && self.finalize.is_source_directory(&Name::root());
                self.finalize.phase = Phase::Closing;
                return;
            }
        };
        let (most, details) = (NAMES, Details { names: true, ..Details::default() });
        let operation = match more {
            Some(listing) => Operation::ListMore { listing, most, details },
            None => Operation::List { directory: FilePath::new(0, directory.as_bytes()), most, details },
        };
        let ticket = self.peer.submit(operation);
        self.finalize.listing = Some((ticket, directory));
    }

    pub(super) fn directory_listed(&mut self, ticket: Ticket, listing: Result<Listing, Fault>) {
        let Some((_, directory)) = self.finalize.listing.take_if(|(under_way, _)| *under_way == ticket)
        else {
            return;
        };
        let listing = match listing {
            Ok(listing) => listing,
            // A dry run did not create the directory, or the owner has no access.
            Err(fault)
                if self.options.dry_run
                    && matches!(fault.why, FaultKind::NotFound | FaultKind::Permission) =>
            {
                return self.keep_directory(Some(directory));
            }
            Err(fault) => {
                let reason = crate::report::reason(fault.why);
                self.peer.report_problem(ProblemSubject::Name(directory.clone()), reason, &fault.text);
                return self.keep_with_contents(directory);
            }
        };
        let listed = ListedDirectory {
            may_remove: self.finalize.is_source_directory(&directory) || self.is_extra(&directory),
            // Extra directories are removed by their listed names, without a comparison.
            folds_more_names: listing.names > self.finalize.case_folding.names()
                && self.finalize.is_source_directory(&directory),
            is_read: self.finalize.protected_directories.contains(&directory),
            directory,
        };
        let directory = &listed.directory;
        let (mut steps, mut remove) = (Vec::new(), Vec::new());
        steps.extend(listing.more.map(|more| RemovalStep::List(directory.clone(), Some(more))));
        for (component, found) in listing.found {
            let name = match self.entry_name(directory, &component, found.as_ref().err()) {
                Ok(name) => name,
                Err((about, fault)) => {
                    // The object may have been removed meanwhile.
                    if fault.why != FaultKind::NotFound {
                        self.peer.report_problem(
                            ProblemSubject::Name(about),
                            crate::report::reason(fault.why),
                            &fault.text,
                        );
                    }
                    self.keep_with_contents(directory.clone());
                    continue;
                }
            };
            let metadata = found.ok().map(|found| found.metadata);
            if listed.may_remove && is_own_file(&component) && *component != *JOURNAL {
                self.handle_foreign_partial(&listed, name, metadata);
                continue;
            }
            match self.decide_removal(&listed, &name, &component, metadata) {
                RemovalDecision::Descend => steps.push(RemovalStep::List(name, None)),
                RemovalDecision::Keep => {}
                // Its contents are visited before the directory itself.
                RemovalDecision::RemoveTree => {
                    steps.extend([RemovalStep::RemoveDirectory(name.clone()), RemovalStep::List(name, None)])
                }
                RemovalDecision::Remove => remove.push(name),
            }
        }
        if let Some(removal) = &mut self.finalize.removal {
            removal.steps.append(&mut steps);
        }
        self.remove_reported(remove);
    }

    /// Returns the name of a listed entry, or the name and fault to report. Filters need its kind.
    fn entry_name(
        &self,
        directory: &Name,
        component: &[u8],
        fault: Option<&Fault>,
    ) -> Result<Name, (Name, Fault)> {
        let too_long =
            |error| Fault::new(FaultKind::NameTooLong, format!("cannot name a directory entry: {error}"));
        let name = directory.join(component).map_err(|error| (directory.clone(), too_long(error)))?;
        match fault.filter(|_| !self.options.filter.is_empty()) {
            Some(fault) => Err((name, fault.clone())),
            None => Ok(name),
        }
    }

    /// Keeps a directory because of an entry in it.
    fn keep_with_contents(&mut self, directory: Name) {
        self.finalize.partials_kept = true;
        self.keep_directory(Some(directory));
    }

    /// Removes a partial file of another transfer unless it was modified recently.
    fn handle_foreign_partial(&mut self, listed: &ListedDirectory, name: Name, metadata: Option<FileStat>) {
        match metadata.is_some_and(|metadata| metadata.mtime < self.options.keep_partials_since) {
            true if self.options.dry_run => {}
            true => self.remove_unreported(FilePath::new(0, name.as_bytes())),
            false => self.keep_with_contents(listed.directory.clone()),
        }
    }

    /// Decides on an entry of a directory in which entries may be removed.
    fn decide_removal(
        &mut self,
        listed: &ListedDirectory,
        name: &Name,
        component: &[u8],
        metadata: Option<FileStat>,
    ) -> RemovalDecision {
        let is_directory = metadata.is_some_and(|metadata| metadata.kind == FileKind::Directory);
        if is_directory && self.finalize.is_source_directory(name) {
            if listed.is_read || metadata.is_some_and(|metadata| self.options.protected.is_source(&metadata))
            {
                self.finalize.protected_directories.insert(name.clone());
            }
            return RemovalDecision::Descend;
        }
        // The contents of a directory that is kept are not visited.
        if !listed.may_remove || self.finalize.is_source_name(name) || component == JOURNAL {
            self.finalize.partials_kept |= is_directory;
            return RemovalDecision::Keep;
        }
        let is_left_out = !self.options.filter.includes(name, is_directory);
        let why = match metadata {
            _ if is_left_out => None,
            Some(metadata) if listed.is_read || self.options.protected.contains_source(&metadata) => {
                Some("not deleted: it is a source directory, or contains or is inside one")
            }
            // It may be a file of the source under an equivalent name.
            _ if listed.folds_more_names => {
                Some("not deleted: this directory ignores case in names, and the destination itself does not")
            }
            _ => None,
        };
        if let Some(why) = why {
            self.peer.report_problem(ProblemSubject::Name(name.clone()), Reason::Other, why);
        }
        if why.is_some() || is_left_out {
            self.finalize.partials_kept |= is_directory;
            self.keep_directory(Some(listed.directory.clone()));
            return RemovalDecision::Keep;
        }
        if is_directory {
            RemovalDecision::RemoveTree
        } else {
            RemovalDecision::Remove
        }
    }

    /// Returns whether a directory being listed is extra.
    fn is_extra(&self, directory: &Name) -> bool {
        let leaves =
            |step: &RemovalStep| matches!(step, RemovalStep::RemoveDirectory(left) if left == directory);
        self.finalize.removal.as_ref().is_some_and(|removal| removal.steps.iter().rev().any(leaves))
    }

    /// Keeps a directory, if it is extra, because it contains an entry to keep.
    fn keep_directory(&mut self, directory: Option<Name>) {
        let extra = directory.filter(|directory| !self.finalize.is_source_directory(directory));
        if let Some(removal) = &mut self.finalize.removal {
            removal.kept.extend(extra);
        }
    }

    /// Removes entries with all contents, and reports that.
    pub(super) fn remove_reported(&mut self, names: Vec<Name>) {
        let paths: Vec<FilePath> = names.iter().map(|name| FilePath::new(0, name.as_bytes())).collect();
        let op = |name| PendingOp::reported(name, ChangeKind::Removed);
        let pending_ops: Vec<PendingOp> = names.into_iter().map(op).collect();
        if self.options.dry_run {
            return pending_ops.into_iter().for_each(|op| self.op_done(op, Ok(())));
        }
        if !paths.is_empty() {
            let ticket = self.peer.submit(Operation::Remove(paths));
            self.pending_ops.submitted(ticket, pending_ops);
        }
    }
}

fn is_file(found: &LookupResult) -> bool {
    matches!(found, Ok(Some(found)) if found.metadata.kind == FileKind::File)
}

/// Returns whether both objects exist and are the same file.
fn is_same_file(found: &LookupResult, other: &LookupResult) -> bool {
    let (Ok(Some(found)), Ok(Some(other))) = (found, other) else { return false };
    (found.metadata.volume, found.metadata.inode) == (other.metadata.volume, other.metadata.inode)
}

/// Returns whether both are regular files and the first is newer.
fn is_newer(found: &LookupResult, than: &LookupResult) -> bool {
    let time = |found: &LookupResult| found.as_ref().ok()?.as_ref().map(|found| found.metadata.mtime);
    is_file(found) && is_file(than) && time(found) > time(than)
}

/// Returns an operation on the destination as a whole, of which only failure is reported.
fn unreported_root_op() -> PendingOp {
    PendingOp::unreported(Name::root())
}
