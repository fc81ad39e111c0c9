//! Attributes of directories, which are set after their contents.

use super::compare::stamp;
use super::file_results::FileResults;
use super::itemize::Update;
use super::options::SinkOptions;
use super::pending_ops::PendingOp;
use crate::entry::{Entry, FileNumber, Inode, Mode, Object};
use crate::name::Name;
use crate::name_set::NameSet;
use crate::port::{Attributes, FileInfo, FileKind, FilePath, NewObject, Object as Made};
use crate::wire::{ChangeKind, EntryStore, Itemized};
use std::collections::HashMap;

/// Mode bits with which the owner can create entries in a directory.
const OWNER_ACCESS: u32 = 0o700;

/// Directories of the source, with the attributes to set at the end.
///
/// Invariant: each directory is in the store once, and returned after the directories and files in
/// it.
#[derive(Debug, Default)]
pub(super) struct Directories {
    waiting: EntryStore,
    /// Directories among them that were created and get the source's mode less restrictions.
    masked: NameSet<6>,
    /// Directories among them that existed with other attributes.
    attributes_set: NameSet<6>,
    /// The changed attributes of these, if they are reported.
    itemized: HashMap<Name, Box<Itemized>>,
}

/// Attributes to set, and the results of setting them.
type DirectoryAttributes = (Vec<(FilePath, Attributes)>, Vec<PendingOp>);

/// How a directory is created or opened to its owner.
pub(super) struct DirectoryPlan {
    /// The operation.
    pub making: NewObject,
    /// Its result.
    pub op: PendingOp,
    /// Whether the directory exists with the same attributes.
    pub is_unchanged: bool,
}

impl Directories {
    /// Adds a directory; returns how to create it.
    pub fn add(
        &mut self,
        (number, name): (FileNumber, Name),
        inode: Inode,
        found: Option<&FileInfo>,
        options: &SinkOptions,
    ) -> DirectoryPlan {
        let is_created_destination = options.is_created_destination(&name);
        let is_there = found.is_some_and(|found| found.metadata.kind == FileKind::Directory);
        let differs = is_there && (is_created_destination || options.differs(&inode, found));
        let before = found.filter(|_| is_there && !is_created_destination);
        let update = if before.is_some() { Update::Attributes } else { Update::Create };
        let mut itemized = options.itemize(update, &inode, before);
        if differs {
            self.attributes_set.add(&name);
            self.itemized.extend(itemized.take().map(|itemized| (name.clone(), itemized)));
        }
        // A destination created just before is treated like other new directories.
        let is_new = !is_there || is_created_destination;
        let attributes = if is_new { initial_attributes(&inode, options) } else { Attributes::default() };
        let making = NewObject { at: FilePath::new(0, name.as_bytes()), object: Made::Directory, attributes };
        let action = (!is_there).then_some(ChangeKind::Created);
        let op = PendingOp { number: Some(number), action, itemized, ..PendingOp::unreported(name.clone()) };
        let keep = options.preserve.modes;
        let stays = found.filter(|_| !is_new && !keep);
        let owner_bits = if options.is_shard { OWNER_ACCESS } else { 0 };
        let stays = stays.and_then(|found| Mode::new(found.metadata.mode | owner_bits).ok());
        if stays.is_none() && !keep {
            self.masked.add(&name);
        }
        let mode = stays.unwrap_or(inode.mode);
        self.waiting.push(Entry { name, object: Object::New(Inode { mode, ..inode }) });
        DirectoryPlan { making, op, is_unchanged: is_there && !differs }
    }

    /// Takes the last directories and returns the attributes to set, in reverse order, so that each
    /// follows its contents; `None` at the end.
    pub fn next(&mut self, results: &FileResults, options: &SinkOptions) -> Option<DirectoryAttributes> {
        let entries = self.waiting.pop()?.into_iter().rev();
        let new = entries.filter_map(|Entry { name, object }| match object {
            Object::New(inode) => Some((name, inode)),
            Object::HardLink(_) => None,
        });
        // The failure to create one was reported.
        let created = new.filter(|(name, _)| !results.has_failed(name));
        Some(created.map(|(name, inode)| self.attributes(name, &inode, options)).unzip())
    }

    fn attributes(
        &mut self,
        name: Name,
        inode: &Inode,
        options: &SinkOptions,
    ) -> ((FilePath, Attributes), PendingOp) {
        let keep = options.preserve;
        let masked = self.masked.has(&name);
        let bits = options.bits(inode);
        let attributes = Attributes {
            mode: Some(if masked { bits & 0o777 } else { bits }),
            masked,
            mtime: keep.time_of(&inode.kind).then(|| stamp(inode)),
            user: keep.users.then(|| inode.user.id()),
            group: keep.groups.then(|| inode.group.id()),
            xattrs: options.xattrs(inode),
        };
        let at = FilePath::new(0, name.as_bytes());
        let action = match options.is_created_destination(&name) {
            true => ChangeKind::Created,
            false => ChangeKind::AttributesSet,
        };
        let action = self.attributes_set.has(&name).then_some(action);
        let itemized = self.itemized.remove(&name);
        ((at, attributes), PendingOp { action, itemized, ..PendingOp::unreported(name) })
    }
}

/// Returns the attributes of a directory until its contents are complete: with its later mode, an
/// interrupted transfer leaves nothing to recognize and finish. A preserved mode may admit other
/// users and is set again by the next run, so until then only the owner has access.
fn initial_attributes(inode: &Inode, options: &SinkOptions) -> Attributes {
    let (mode, masked) = match options.preserve.modes {
        true => (0o700, false),
        false => (options.bits(inode) & 0o777, true),
    };
    Attributes { mode: Some(mode), masked, ..Attributes::default() }
}
