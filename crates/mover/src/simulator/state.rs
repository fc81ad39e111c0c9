//! The state of a file system, and changes to it.

use crate::port::{Stamp, Xattr};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a page: pages that were never written are holes.
pub const PAGE: u64 = 4_096;
/// Inode number of the root directory.
pub const ROOT: u64 = 1;

/// An object of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Type and content.
    pub object: Object,
    /// The lowest twelve bits of its mode.
    pub mode: u32,
    /// The user it belongs to.
    pub user: u32,
    /// The group it belongs to.
    pub group: u32,
    /// Time of the last change of the content.
    pub mtime: Stamp,
    /// Extended attributes by name.
    pub xattrs: Vec<Xattr>,
}

/// Type and content of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A regular file: its bytes, and the pages that were written.
    File(Vec<u8>, BTreeSet<u64>),
    /// A directory: names with inode numbers.
    Directory(BTreeMap<Box<[u8]>, u64>),
    /// Any other type.
    Special(Kind),
}

/// A type without content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A symbolic link with its target.
    Symlink(Box<[u8]>),
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice(u32, u32),
    /// A block device.
    BlockDevice(u32, u32),
}

/// A change, which becomes durable independently of others.
#[derive(Debug, Clone)]
pub enum Change {
    /// Names in directories with new inodes, or none, changed atomically.
    Names(Vec<(u64, Box<[u8]>, Option<u64>)>),
    /// Bytes of a file.
    Data(u64, u64, Vec<u8>),
    /// The size of a file.
    Size(u64, u64),
    /// All attributes.
    Attributes(u64, Box<Inode>),
}

impl Change {
    /// Returns the inode whose `fsync` makes the change durable.
    pub fn inode(&self) -> Option<u64> {
        match self {
            Self::Names(_) => None,
            Self::Data(inode, ..) | Self::Size(inode, _) | Self::Attributes(inode, _) => Some(*inode),
        }
    }
}

/// All inodes, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State(pub BTreeMap<u64, Inode>);

impl State {
    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Names(all) => {
                for (directory, name, inode) in all {
                    let Some(Object::Directory(names)) = self.object(*directory) else { continue };
                    match inode {
                        Some(inode) => drop(names.insert(name.clone(), *inode)),
                        None => drop(names.remove(name)),
                    }
                }
            }
            Change::Data(inode, offset, bytes) => {
                let Some(Object::File(content, pages)) = self.object(*inode) else { return };
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[start..end].copy_from_slice(bytes);
                pages.extend(offset / PAGE..(end as u64).div_ceil(PAGE));
            }
            Change::Size(inode, size) => {
                let Some(Object::File(content, pages)) = self.object(*inode) else { return };
                content.resize(*size as usize, 0);
                pages.retain(|page| page * PAGE < *size);
            }
            Change::Attributes(inode, wanted) => {
                let Some(inode) = self.0.get_mut(inode) else { return };
                let object = std::mem::replace(&mut inode.object, Object::Special(Kind::Fifo));
                *inode = Inode { object, ..(**wanted).clone() };
            }
        }
    }

    fn object(&mut self, inode: u64) -> Option<&mut Object> {
        self.0.get_mut(&inode).map(|inode| &mut inode.object)
    }
}
