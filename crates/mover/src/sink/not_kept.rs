//! Attributes that the user requested and the file system of the destination does not keep.

use super::options::{PreserveOptions, SinkOptions};
use crate::entry::{Inode, Kind};
use crate::name::Name;
use crate::port::{FaultKind, KeptAttributes};
use crate::unpreserved::UnpreservedAttributes;

/// A kind of attribute that is requested and not kept.
#[derive(Debug, Clone, Copy)]
enum NotKept {
    Times,
    Modes,
    Owners,
    Xattrs,
}

impl NotKept {
    fn text(self) -> &'static str {
        match self {
            Self::Times => "the file system keeps no times: files are compared by content",
            Self::Modes => "the file system keeps no modes",
            Self::Owners => "the file system keeps no owners",
            Self::Xattrs => "the file system keeps no extended attributes",
        }
    }

    fn has(self, inode: &Inode) -> bool {
        match self {
            Self::Times | Self::Owners => true,
            Self::Modes => !matches!(inode.kind, Kind::Symlink(_)),
            Self::Xattrs => inode.xattrs.iter().next().is_some(),
        }
    }
}

/// The kinds that are requested and not kept.
#[derive(Debug)]
pub(super) struct NotKeptAttributes(Vec<NotKept>);

impl NotKeptAttributes {
    /// Removes from the options what the destination does not keep.
    pub fn new(options: &mut SinkOptions) -> Self {
        let KeptAttributes { modes, owners, times, xattrs } = options.kept;
        let wanted = options.preserve;
        let kinds = [
            (NotKept::Times, wanted.times && !times),
            (NotKept::Modes, wanted.modes && !modes),
            (NotKept::Owners, (wanted.users || wanted.groups) && !owners),
            (NotKept::Xattrs, wanted.xattrs && !xattrs),
        ];
        options.preserve = PreserveOptions {
            modes: wanted.modes && modes,
            users: wanted.users && owners,
            groups: wanted.groups && owners,
            xattrs: wanted.xattrs && xattrs,
            times: wanted.times && times,
            ..wanted
        };
        options.checksum |= !options.preserve.times && !options.ignore_times;
        let not_kept = kinds.into_iter().filter(|(_, is_lost)| *is_lost).map(|(kind, _)| kind).collect();
        Self(not_kept)
    }

    /// Counts what is not kept of an entry.
    pub fn count_entry(&self, name: &Name, inode: &Inode, unpreserved: &mut UnpreservedAttributes) {
        for kind in self.0.iter().filter(|kind| kind.has(inode)) {
            unpreserved.add(name, FaultKind::NotKept, kind.text());
        }
    }
}
