//! Removal of entries that the source does not have, directory by directory.

use super::options::SinkOptions;
use super::pending_ops::PendingOps;
use super::source_names::SourceNames;
use crate::drive::PeerState;
use crate::name::Name;
use crate::own_files::{is_marker, is_own_file};
use crate::port::{Details, Fault, FaultKind, FileKind, FilePath, FileStat, Listing, Operation, Ticket};
use crate::report::reason;
use crate::wire::{ProblemSubject, Reason};
use std::collections::HashSet;

/// Maximum names per listing of a directory in which entries may be removed.
const NAMES: usize = 512;

#[derive(Debug)]
enum Step {
    /// List a directory, or continue its listing.
    List(Name, Option<u64>),
    /// Remove an extra directory, unless some of its contents were kept.
    RemoveDirectory(Name),
}

/// The next action of a removal.
pub(super) enum NextRemoval {
    /// A listing was submitted, or a directory is kept.
    Continue,
    /// Remove this directory, whose contents are removed.
    Remove(Name),
    /// Nothing is left to remove.
    Finished,
}

/// The removal of extra entries.
///
/// Invariants: at most one listing is in flight. An extra directory is removed only after its
/// contents were visited and none of them was kept.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// Directories in which entries may be removed, the next one last; `None` before the start.
    steps: Option<Vec<Step>>,
    /// Extra directories that contain entries to keep.
    kept: HashSet<Name>,
    listing: Option<(Ticket, Name)>,
    /// Directories that are, or are inside, a source directory.
    protected_directories: HashSet<Name>,
    /// Whether a partial file was kept because it may belong to another transfer or was not
    /// visible.
    partials_kept: bool,
    /// Whether all partial files of other transfers are kept, since one may be running.
    keeps_all_partials: bool,
    /// Whether all partial files of other transfers were removed.
    all_partials_removed: bool,
    /// Number of entries that may still be removed; `None` without a limit.
    left: Option<u64>,
    /// Whether an entry was kept because of the limit.
    exceeded: bool,
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
enum Decision {
    Descend,
    Keep,
    RemoveTree,
    Remove,
}

impl Removal {
    /// Creates the state before the first directory, to remove at most `max` entries.
    pub fn new(max: Option<u64>) -> Self {
        Self { left: max, ..Self::default() }
    }

    /// Returns whether no listing is in flight.
    pub fn is_idle(&self) -> bool {
        self.listing.is_none()
    }

    /// Returns whether the first directory was listed.
    pub fn is_started(&self) -> bool {
        self.steps.is_some()
    }

    /// Returns whether all partial files of other transfers were removed.
    pub fn has_removed_all_partials(&self) -> bool {
        self.all_partials_removed
    }

    /// Keeps all partial files of other transfers, since one may be running.
    pub fn keep_all_partials(&mut self) {
        self.keeps_all_partials = true;
    }

    /// Continues with the next directory.
    pub fn next<B: AsRef<[u8]>>(&mut self, names: &SourceNames, peer: &mut PeerState<B>) -> NextRemoval {
        let steps = self.steps.get_or_insert_with(|| vec![Step::List(Name::root(), None)]);
        let (directory, more) = match steps.pop() {
            Some(Step::List(directory, more)) => (directory, more),
            Some(Step::RemoveDirectory(directory)) if self.kept.remove(&directory) => {
                self.keep(directory.parent(), names);
                return NextRemoval::Continue;
            }
            Some(Step::RemoveDirectory(directory)) if !self.take_one(peer) => {
                self.keep(directory.parent(), names);
                return NextRemoval::Continue;
            }
            Some(Step::RemoveDirectory(directory)) => return NextRemoval::Remove(directory),
            None => {
                self.all_partials_removed = !self.partials_kept && names.contains_directory(&Name::root());
                return NextRemoval::Finished;
            }
        };
        let (most, details) = (NAMES, Details { names: true, ..Details::default() });
        let operation = match more {
            Some(listing) => Operation::ListMore { listing, most, details },
            None => Operation::List { directory: FilePath::new(0, directory.as_bytes()), most, details },
        };
        self.listing = Some((peer.submit(operation), directory));
        NextRemoval::Continue
    }

    /// Handles a listing; returns the entries to remove and report.
    pub fn listed<B: AsRef<[u8]>>(
        &mut self,
        ticket: Ticket,
        listing: Result<Listing, Fault>,
        names: &SourceNames,
        options: &SinkOptions,
        (peer, pending_ops): (&mut PeerState<B>, &mut PendingOps),
    ) -> Vec<Name> {
        let Some((_, directory)) = self.listing.take_if(|(listing, _)| *listing == ticket) else {
            return Vec::new();
        };
        let listing = match listing {
            Ok(listing) => listing,
            Err(fault) => {
                self.listing_failed(directory, &fault, names, options, peer);
                return Vec::new();
            }
        };
        let listed = self.describe(directory, &listing, names, options);
        let directory = &listed.directory;
        let (mut steps, mut remove) = (Vec::new(), Vec::new());
        steps.extend(listing.more.map(|more| Step::List(directory.clone(), Some(more))));
        for (component, found) in listing.found {
            let name = match directory.join(&component) {
                Ok(name) => name,
                // The removal of the directory does not need the names of its entries.
                Err(_) if !options.keeps_excluded() && self.is_extra(directory) => continue,
                Err(error) => {
                    let why = FaultKind::NameTooLong;
                    let fault = Fault::new(why, format!("cannot name a directory entry: {error}"));
                    report(directory.clone(), &fault, peer);
                    self.keep_with_contents(directory.clone(), names);
                    continue;
                }
            };
            let metadata = match found {
                Ok(found) => found.metadata,
                // It may be excluded, or contain the source or entries to keep.
                Err(fault) => {
                    if !names.contains(&name) {
                        report(name, &fault, peer);
                    }
                    self.keep_with_contents(directory.clone(), names);
                    continue;
                }
            };
            if listed.may_remove && is_own_file(&component) && *component != *options.journal {
                if self.may_remove_own((&listed, &component), &metadata, names, options) {
                    pending_ops.remove_unreported(FilePath::new(0, name.as_bytes()), peer);
                }
                continue;
            }
            match self.decide((&listed, &name, &component), &metadata, names, options, peer) {
                Decision::Descend => steps.push(Step::List(name, None)),
                Decision::Keep => {}
                // Its contents are visited before the directory itself.
                Decision::RemoveTree => {
                    steps.extend([Step::RemoveDirectory(name.clone()), Step::List(name, None)]);
                }
                Decision::Remove => remove.push(name),
            }
        }
        self.steps.get_or_insert_default().append(&mut steps);
        remove
    }

    fn listing_failed<B: AsRef<[u8]>>(
        &mut self,
        directory: Name,
        fault: &Fault,
        names: &SourceNames,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) {
        // A dry run did not create the directory, or the owner has no access.
        if options.dry_run && matches!(fault.why, FaultKind::NotFound | FaultKind::Permission) {
            return self.keep(Some(directory), names);
        }
        report(directory.clone(), fault, peer);
        self.keep_with_contents(directory, names);
    }

    fn describe(
        &self,
        directory: Name,
        listing: &Listing,
        names: &SourceNames,
        options: &SinkOptions,
    ) -> ListedDirectory {
        let is_of_source = names.contains_directory(&directory);
        ListedDirectory {
            may_remove: is_of_source || self.is_extra(&directory),
            // Extra directories are removed by their listed names, without a comparison.
            folds_more_names: listing.names > options.names && is_of_source,
            is_read: self.protected_directories.contains(&directory),
            directory,
        }
    }

    /// Returns whether a directory being listed is extra.
    fn is_extra(&self, directory: &Name) -> bool {
        let leaves = |step: &Step| matches!(step, Step::RemoveDirectory(left) if left == directory);
        self.steps.as_ref().is_some_and(|steps| steps.iter().rev().any(leaves))
    }

    /// Keeps a directory, if it is extra, because it contains an entry to keep.
    fn keep(&mut self, directory: Option<Name>, names: &SourceNames) {
        self.kept.extend(directory.filter(|directory| !names.contains_directory(directory)));
    }

    /// Keeps a directory because of an entry in it.
    fn keep_with_contents(&mut self, directory: Name, names: &SourceNames) {
        self.partials_kept = true;
        self.keep(Some(directory), names);
    }

    /// Returns whether to remove a partial file or a marker of another transfer: not if it was
    /// modified recently.
    fn may_remove_own(
        &mut self,
        (listed, component): (&ListedDirectory, &[u8]),
        metadata: &FileStat,
        names: &SourceNames,
        options: &SinkOptions,
    ) -> bool {
        let is_old = !self.keeps_all_partials && metadata.mtime < options.keep_partials_since;
        match is_old {
            true => {}
            false if is_marker(component) => self.keep(Some(listed.directory.clone()), names),
            false => self.keep_with_contents(listed.directory.clone(), names),
        }
        is_old && !options.dry_run
    }

    /// Decides on an entry of a directory in which entries may be removed.
    fn decide<B: AsRef<[u8]>>(
        &mut self,
        (listed, name, component): (&ListedDirectory, &Name, &[u8]),
        metadata: &FileStat,
        names: &SourceNames,
        options: &SinkOptions,
        peer: &mut PeerState<B>,
    ) -> Decision {
        let is_directory = metadata.kind == FileKind::Directory;
        if is_directory && names.contains_directory(name) {
            if listed.is_read || options.protected.is_source(metadata) {
                self.protected_directories.insert(name.clone());
            }
            return Decision::Descend;
        }
        // The contents of a directory that is kept are not visited.
        if !listed.may_remove || names.contains(name) || *component == *options.journal {
            self.partials_kept |= is_directory;
            return Decision::Keep;
        }
        let is_left_out = options.keeps_excluded() && !options.filter.includes(name, is_directory);
        let why = if is_left_out {
            None
        } else if listed.is_read || options.protected.contains_source(metadata) {
            Some("not deleted: it is a source directory, or contains or is inside one")
        } else {
            // It may be a file of the source under an equivalent name.
            let text =
                "not deleted: this directory ignores case in names, and the destination itself does not";
            listed.folds_more_names.then_some(text)
        };
        if let Some(why) = why {
            peer.report_problem(ProblemSubject::Name(name.clone()), Reason::Other, why);
        }
        // A directory counts when its contents are removed.
        if why.is_some() || is_left_out || !is_directory && !self.take_one(peer) {
            self.partials_kept |= is_directory;
            self.keep(Some(listed.directory.clone()), names);
            return Decision::Keep;
        }
        match is_directory {
            true => Decision::RemoveTree,
            false => Decision::Remove,
        }
    }

    /// Counts an entry to remove; returns `false` if there were too many, which is reported once.
    fn take_one<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) -> bool {
        match self.left.as_mut() {
            None => return true,
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return true;
            }
        }
        if !std::mem::replace(&mut self.exceeded, true) {
            let text = "more entries are extra here than --max-delete allows to delete: the others stay";
            peer.report_problem(ProblemSubject::Name(Name::root()), Reason::Other, text);
        }
        false
    }
}

fn report<B: AsRef<[u8]>>(name: Name, fault: &Fault, peer: &mut PeerState<B>) {
    peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text);
}
