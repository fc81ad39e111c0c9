//! Hard links, which are created when all files have their final content.

use super::batches::LookupResult;
use super::file_results::FileResults;
use super::options::SinkOptions;
use super::pending_ops::PendingOp;
use crate::drive::PeerState;
use crate::entry::{Entry, Object};
use crate::name::Name;
use crate::port::{
    Attributes, Details, FileKind, FilePath, FileStat, NewObject, Object as Made, Operation, Ticket,
};
use crate::wire::ChangeKind;
use crate::wire::EntryStore;
use std::collections::HashSet;

/// How to treat a hard link.
pub(super) enum LinkDecision {
    /// It exists already, or must be left unchanged.
    Unchanged,
    /// It is not created, for this reason.
    Refuse(&'static str),
    /// A directory has its name, and is not removed.
    Blocked,
    /// Create it with this operation.
    Create(NewObject, Box<PendingOp>),
}

/// Hard links to create.
///
/// Invariants: at most one lookup is in flight, and the links of a lookup are no longer in the
/// store. A directory that blocks a link is returned for removal at most once.
#[derive(Debug, Default)]
pub(super) struct HardLinks {
    waiting: EntryStore,
    /// The lookup in flight, and its links.
    lookup: Option<(Ticket, Vec<Entry>)>,
    /// Directories that blocked hard links and were removed.
    cleared: HashSet<Name>,
}

impl HardLinks {
    /// Adds a hard link.
    pub fn push(&mut self, entry: Entry) {
        self.waiting.push(entry);
    }

    /// Returns whether no lookup is in flight.
    pub fn is_idle(&self) -> bool {
        self.lookup.is_none()
    }

    /// Looks up the next links and their targets, now that all files have their final content;
    /// returns `false` if there are none.
    pub fn look_up_next<B: AsRef<[u8]>>(&mut self, options: &SinkOptions, peer: &mut PeerState<B>) -> bool {
        let Some(entries) = self.waiting.pop() else { return false };
        let path = |name: &Name| FilePath::new(0, name.as_bytes());
        let both = |entry: &Entry| match &entry.object {
            Object::HardLink(to) => [path(&entry.name), path(to)],
            Object::New(_) => [path(&entry.name), path(&entry.name)],
        };
        let at = entries.iter().flat_map(both).collect();
        let details = Details { xattrs: options.preserve.xattrs, holes: true, ..Details::default() };
        let links = Vec::new();
        self.lookup = Some((peer.submit(Operation::Stat { at, details, links }), entries));
        true
    }

    /// Handles a completed lookup; returns its links, or `None` if the ticket is not one of these.
    pub fn looked_up(&mut self, ticket: Ticket) -> Option<Vec<Entry>> {
        self.lookup.take_if(|(lookup, _)| *lookup == ticket).map(|(_, entries)| entries)
    }

    /// Returns the directories that block hard links and may be removed; each is tried once.
    pub fn directories_to_replace(
        &mut self,
        entries: &[Entry],
        found: &[LookupResult],
        results: &FileResults,
        options: &SinkOptions,
    ) -> Vec<Name> {
        if !options.may_remove_blockers() {
            return Vec::new();
        }
        let is_removable = |at: &LookupResult| matches!(at, Ok(Some(found)) if options.protected.is_removable_directory(&found.metadata));
        let is_blocked = |entry: &Entry, both: &[LookupResult]| match (&entry.object, both) {
            (Object::HardLink(to), [at, first]) => {
                is_removable(at) && obstacle(to, at, first, results, options).is_none()
            }
            _ => false,
        };
        let blocked = entries.iter().zip(found.chunks(2)).filter(|(entry, both)| is_blocked(entry, both));
        let names = blocked.map(|(entry, _)| entry.name.clone());
        names.filter(|name| self.cleared.insert(name.clone())).collect()
    }

    /// Decides on a hard link from `name` to the file `to`, given the objects with both names.
    pub fn decide(
        &self,
        (name, to): (&Name, &Name),
        (at, first): (&LookupResult, &LookupResult),
        results: &FileResults,
        options: &SinkOptions,
    ) -> LinkDecision {
        if let Some(obstacle) = obstacle(to, at, first, results, options) {
            return obstacle;
        }
        // A dry run only pretends to remove a directory.
        if is_directory(at) && !(options.dry_run && self.cleared.contains(name)) {
            return LinkDecision::Blocked;
        }
        let making = NewObject {
            at: FilePath::new(0, name.as_bytes()),
            object: Made::HardLink(FilePath::new(0, to.as_bytes())),
            attributes: Attributes::default(),
        };
        let op = PendingOp::reported(name.clone(), ChangeKind::Created);
        let itemized = options.itemize_link(to, metadata(at), metadata(first));
        LinkDecision::Create(making, Box::new(PendingOp { is_file: is_file(first), itemized, ..op }))
    }
}

/// Returns why a hard link to the file `to` is not created, apart from directories.
fn obstacle(
    to: &Name,
    at: &LookupResult,
    first: &LookupResult,
    results: &FileResults,
    options: &SinkOptions,
) -> Option<LinkDecision> {
    if let Ok(found) = at {
        if options.existing.skips(false, found.as_ref()) {
            return Some(LinkDecision::Unchanged);
        }
    }
    let would_be_replaced = results.would_be_replaced(to);
    if results.is_size_excluded(to) || is_same_file(at, first) && !would_be_replaced {
        return Some(LinkDecision::Unchanged);
    }
    // The target may still be an old file, and the link newer than it.
    if !results.has_expected_content(to, first) {
        let why = if results.has_failed(to) { "failed" } else { "may have failed" };
        return Some(LinkDecision::Refuse(why));
    }
    // The mtime of a file that would be replaced is not known here.
    if options.update && !would_be_replaced && is_newer(at, first) {
        return Some(LinkDecision::Unchanged);
    }
    if results.is_skipped(to) {
        return Some(LinkDecision::Refuse("was skipped"));
    }
    results.is_newer(to).then_some(LinkDecision::Refuse("is newer here"))
}

fn is_directory(found: &LookupResult) -> bool {
    matches!(found, Ok(Some(found)) if found.metadata.kind == FileKind::Directory)
}

fn is_file(found: &LookupResult) -> bool {
    matches!(found, Ok(Some(found)) if found.metadata.kind == FileKind::File)
}

fn metadata(found: &LookupResult) -> Option<&FileStat> {
    found.as_ref().ok()?.as_ref().map(|found| &found.metadata)
}

/// Returns whether both objects exist and are the same file.
pub(super) fn is_same_file(found: &LookupResult, other: &LookupResult) -> bool {
    let (Ok(Some(found)), Ok(Some(other))) = (found, other) else { return false };
    (found.metadata.volume, found.metadata.inode) == (other.metadata.volume, other.metadata.inode)
}

/// Returns whether both are regular files and the first is newer.
fn is_newer(found: &LookupResult, than: &LookupResult) -> bool {
    let time = |found: &LookupResult| found.as_ref().ok()?.as_ref().map(|found| found.metadata.mtime);
    is_file(found) && is_file(than) && time(found) > time(than)
}
