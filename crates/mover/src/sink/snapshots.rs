//! Files that are unchanged since an earlier snapshot, and become hard links to it.

use super::decide::expected_state;
use super::incoming_file::FileTarget;
use super::options::SinkOptions;
use super::pending_ops::PendingOp;
use crate::entry::{FileNumber, Inode, Kind};
use crate::name::Name;
use crate::port::{FileInfo, FilePath, NewObject, Object, Ticket};
use crate::wire::ChangeKind;
use std::collections::BTreeMap;

/// A file of an earlier snapshot, and the number of the root that contains it.
pub(super) type SnapshotFile = (u32, FileInfo);

/// A hard link to a file of an earlier snapshot. If it cannot be created, the file is received.
#[derive(Debug)]
pub(super) struct SnapshotLink {
    /// The operation.
    pub making: NewObject,
    /// The number of the entry.
    pub number: FileNumber,
    /// Where the file is written otherwise.
    pub target: FileTarget,
    /// The result of the operation.
    pub op: PendingOp,
}

impl SinkOptions {
    /// Returns the root of the first snapshot with the same file, if the destination has none.
    pub(super) fn unchanged_snapshot(&self, inode: &Inode, snapshots: &[SnapshotFile]) -> Option<u32> {
        let is_same =
            |found: &FileInfo| self.is_same(inode, found, false) && !self.differs(inode, Some(found));
        let is_file = matches!(inode.kind, Kind::File(_)) && !self.is_size_excluded(&inode.kind);
        snapshots.iter().find(|(_, found)| is_file && is_same(found)).map(|(root, _)| *root)
    }

    /// Returns the hard link of an entry to its file below the root of a snapshot.
    pub(super) fn snapshot_link(
        &self,
        number: FileNumber,
        root: u32,
        inode: &Inode,
        target: FileTarget,
    ) -> SnapshotLink {
        let at = |root| FilePath::new(root, target.name.as_bytes());
        let making = NewObject {
            at: at(0),
            object: Object::LinkOrClone(at(root)),
            attributes: target.attributes.clone(),
        };
        let op = PendingOp {
            number: Some(number),
            is_file: true,
            expected: expected_state((target.content.size(), target.attributes.mtime), None),
            itemized: self.itemize_snapshot(inode),
            ..PendingOp::reported(target.name.clone(), ChangeKind::Created)
        };
        SnapshotLink { making, number, target, op }
    }
}

/// Hard links to snapshots that are being created, by ticket.
#[derive(Debug, Default)]
pub(super) struct SnapshotLinks(BTreeMap<Ticket, Vec<SnapshotLink>>);

impl SnapshotLinks {
    /// Returns whether none is being created.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds links whose creation was submitted.
    pub fn submitted(&mut self, ticket: Ticket, links: Vec<SnapshotLink>) {
        self.0.insert(ticket, links);
    }

    /// Takes the links of a completed operation; `None` if the ticket is not one of these.
    pub fn completed(&mut self, ticket: Ticket) -> Option<Vec<SnapshotLink>> {
        self.0.remove(&ticket)
    }
}

/// Returns the paths of a name below all snapshots.
pub(super) fn snapshot_paths(name: &Name, snapshots: u32) -> impl Iterator<Item = FilePath> + '_ {
    (1..=snapshots).map(|root| FilePath::new(root, name.as_bytes()))
}
