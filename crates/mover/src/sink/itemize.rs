//! Describing changes by the letters of rsync's `--itemize-changes`.

use super::compare::is_alike;
use super::options::SinkOptions;
use crate::entry::{Inode, Kind};
use crate::name::Name;
use crate::port::{FileInfo, FileKind, FileStat};
use crate::wire::{attribute, ItemKind, Itemized};

/// How an entry is updated: the first letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// The data of a file is transferred.
    Transfer,
    /// Another object is created.
    Create,
    /// Only attributes are set.
    Attributes,
}

impl SinkOptions {
    /// Describes the update of an entry, given the object with its name.
    pub(super) fn itemize(
        &self,
        update: Update,
        inode: &Inode,
        found: Option<&FileInfo>,
    ) -> Option<Box<Itemized>> {
        if !self.itemize {
            return None;
        }
        let letter = match update {
            Update::Transfer => b'>',
            Update::Create => b'c',
            Update::Attributes => b'.',
        };
        let mut item = Itemized::new(letter, kind_of(&inode.kind));
        match &inode.kind {
            Kind::File(content) => item.size = content.size(),
            Kind::Symlink(target) => item.target = Some(target.as_bytes().into()),
            _ => {}
        }
        match found.filter(|found| is_same_kind(&inode.kind, found.metadata.kind)) {
            None => item.mark_new(),
            Some(found) => self.mark_differences(&mut item, update, inode, found),
        }
        Some(Box::new(item.finish()))
    }

    fn mark_differences(&self, item: &mut Itemized, update: Update, inode: &Inode, found: &FileInfo) {
        let (keep, metadata) = (self.preserve, &found.metadata);
        let is_link = metadata.kind == FileKind::Symlink;
        let has_other_content = match &inode.kind {
            Kind::File(content) => {
                if metadata.size != content.size() {
                    item.mark(attribute::SIZE, b's');
                }
                self.checksum && update == Update::Transfer
            }
            Kind::Directory => false,
            _ => update == Update::Create,
        };
        if has_other_content {
            item.mark(attribute::CONTENT, b'c');
        }
        if !self.is_kept(inode, metadata) {
            item.mark(attribute::TIME, b't');
        }
        if keep.modes && !is_link && metadata.mode != self.bits(inode) {
            item.mark(attribute::MODE, b'p');
        }
        if keep.users && metadata.user != inode.user.id() {
            item.mark(attribute::USER, b'o');
        }
        if keep.groups && self.may_set_group(inode, metadata) && metadata.group != inode.group.id() {
            item.mark(attribute::GROUP, b'g');
        }
        if keep.xattrs && !is_link {
            let is_acl = |name: &[u8]| name.starts_with(b"system.posix_acl_");
            for (position, letter, acls) in [(attribute::ACL, b'a', true), (attribute::XATTRS, b'x', false)] {
                let there = found.xattrs.iter().map(|(name, value)| (&**name, &**value));
                let there = there.filter(|(name, _)| is_acl(name) == acls);
                if !there.eq(self.settable(inode).filter(|(name, _)| is_acl(name) == acls)) {
                    item.mark(position, letter);
                }
            }
        }
    }

    /// Describes a hard link to the file `first`, given the object with its name.
    pub(super) fn itemize_link(
        &self,
        to: &Name,
        found: Option<&FileStat>,
        first: Option<&FileStat>,
    ) -> Option<Box<Itemized>> {
        if !self.itemize {
            return None;
        }
        let kind = first.map_or(ItemKind::File, |first| kind_of_object(first.kind));
        let mut item = Itemized::new(b'h', kind);
        item.target = Some(to.as_bytes().into());
        item.size = first.map_or(0, |first| first.size);
        match found.zip(first).filter(|(found, _)| kind_of_object(found.kind) == kind) {
            None => item.mark_new(),
            Some((found, first)) => {
                let keep = self.preserve;
                for (position, letter, differs) in [
                    (attribute::SIZE, b's', found.size != first.size),
                    (attribute::TIME, b't', found.mtime != first.mtime),
                    (attribute::MODE, b'p', keep.modes && found.mode != first.mode),
                    (attribute::USER, b'o', keep.users && found.user != first.user),
                    (attribute::GROUP, b'g', keep.groups && found.group != first.group),
                ] {
                    if differs {
                        item.mark(position, letter);
                    }
                }
            }
        }
        Some(Box::new(item.finish()))
    }

    /// Describes a hard link to an unchanged file of an earlier snapshot.
    pub(super) fn itemize_snapshot(&self, inode: &Inode) -> Option<Box<Itemized>> {
        if !self.itemize {
            return None;
        }
        let mut item = Itemized::new(b'h', ItemKind::File);
        if let Kind::File(content) = &inode.kind {
            item.size = content.size();
        }
        Some(Box::new(item.finish()))
    }

    /// Describes a removal.
    pub(super) fn itemize_removal(&self, is_directory: bool) -> Option<Box<Itemized>> {
        let kind = if is_directory { ItemKind::Directory } else { ItemKind::File };
        self.itemize.then(|| Box::new(Itemized::removed(kind)))
    }
}

/// Returns whether an existing object is updated rather than replaced by one of another kind.
fn is_same_kind(kind: &Kind, there: FileKind) -> bool {
    match kind {
        Kind::CharacterDevice(_) => matches!(there, FileKind::CharacterDevice(..)),
        Kind::BlockDevice(_) => matches!(there, FileKind::BlockDevice(..)),
        kind => is_alike(kind, there),
    }
}

fn kind_of(kind: &Kind) -> ItemKind {
    match kind {
        Kind::File(_) => ItemKind::File,
        Kind::Directory => ItemKind::Directory,
        Kind::Symlink(_) => ItemKind::Symlink,
        Kind::Fifo => ItemKind::Special,
        Kind::CharacterDevice(_) | Kind::BlockDevice(_) => ItemKind::Device,
    }
}

fn kind_of_object(kind: FileKind) -> ItemKind {
    match kind {
        FileKind::File => ItemKind::File,
        FileKind::Directory => ItemKind::Directory,
        FileKind::Symlink => ItemKind::Symlink,
        FileKind::Fifo | FileKind::Socket => ItemKind::Special,
        FileKind::CharacterDevice(..) | FileKind::BlockDevice(..) => ItemKind::Device,
    }
}
