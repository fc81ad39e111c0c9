//! Files that are created without their data: as hard links to an earlier snapshot, or as clones of
//! the source.

use super::compare::stamp;
use super::incoming_file::FileTarget;
use super::options::SinkOptions;
use super::pending_ops::PendingOp;
use crate::entry::{FileNumber, Inode, Kind};
use crate::port::{FileInfo, FileKind, FilePath, NewObject, Object, Ticket};
use crate::wire::ChangeKind;
use std::collections::BTreeMap;

/// A file of an earlier snapshot or of the source, and its path.
pub(super) type SnapshotFile = (FilePath, FileInfo);

/// A hard link to a file of an earlier snapshot, or a clone. If it cannot be created, the file is
/// received.
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
    /// Returns how a file is created without its data: as a hard link to the first snapshot with
    /// the same file if the destination has none, or as a clone of the source.
    pub(super) fn shared_object(
        &self,
        inode: &Inode,
        snapshots: Vec<SnapshotFile>,
        exists: bool,
    ) -> Option<Object> {
        let is_same =
            |found: &FileInfo| self.is_same(inode, found, false) && !self.differs(inode, Some(found));
        let share = |(path, found): SnapshotFile| match path.root <= self.snapshots {
            true => (!exists && is_same(&found)).then_some(Object::LinkOrClone(path)),
            false => is_cloned(inode, &found).then(|| Object::Clone(path, found.metadata.identity())),
        };
        snapshots.into_iter().find_map(share)
    }

    /// Returns the creation of an entry as this object.
    pub(super) fn snapshot_link(
        &self,
        number: FileNumber,
        object: Object,
        inode: &Inode,
        target: FileTarget,
    ) -> SnapshotLink {
        let is_clone = matches!(object, Object::Clone(..));
        let making = NewObject {
            at: FilePath::new(0, target.name.as_bytes()),
            object,
            attributes: target.attributes.clone(),
        };
        let action = if is_clone { ChangeKind::Copied } else { ChangeKind::Created };
        let op = PendingOp {
            number: Some(number),
            is_file: true,
            replaces: is_clone,
            expected: target.expected,
            itemized: if is_clone { target.itemized.clone() } else { self.itemize_snapshot(inode) },
            ..PendingOp::reported(target.name.clone(), action)
        };
        SnapshotLink { making, number, target, op }
    }
}

/// Returns whether a file is the announced file of the source, with data to share.
fn is_cloned(inode: &Inode, found: &FileInfo) -> bool {
    let Kind::File(content) = &inode.kind else { return false };
    let metadata = &found.metadata;
    let is_it = (metadata.size, metadata.mtime) == (content.size(), stamp(inode));
    metadata.kind == FileKind::File && is_it && content.size() > 0
}

/// Hard links to snapshots and clones that are being created, by ticket.
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
