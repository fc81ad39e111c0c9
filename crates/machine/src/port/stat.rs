//! What a file system tells of its objects.

use super::{Fault, Xattr};

/// A time since 1970 in UTC: seconds rounded down, and nanoseconds below 10^9 beyond them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds beyond them.
    pub nanoseconds: u32,
}

/// What an object is (inode(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device: major and minor number.
    CharacterDevice(u32, u32),
    /// A block device: major and minor number.
    BlockDevice(u32, u32),
}

/// Attributes of an object, as statx(2) gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// The lowest twelve bits of its mode.
    pub mode: u32,
    /// The user it belongs to.
    pub user: u32,
    /// The group it belongs to.
    pub group: u32,
    /// Bytes of a regular file, holes included.
    pub size: u64,
    /// When its content was last changed.
    pub mtime: Stamp,
    /// When anything of it was last changed, as the kernel's clock says, rounded as its file system rounds times. File systems that keep
    /// no such time (FUSE, FAT) give 0 or that of its content.
    pub ctime: Stamp,
    /// The number of its inode.
    pub inode: u64,
    /// The file system it is on.
    pub volume: u64,
    /// How many names it has.
    pub links: u64,
}

impl FileStat {
    /// What must stay the same while the object is read.
    pub fn identity(&self) -> Identity {
        Identity { inode: self.inode, size: self.size, mtime: self.mtime }
    }
}

/// What tells one content of a file from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The number of its inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed.
    pub mtime: Stamp,
}

/// What is to be found out about objects beside their attributes; each costs system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details {
    /// Extended attributes, POSIX ACLs among them.
    pub xattrs: bool,
    /// Where the data of files with holes is.
    pub holes: bool,
    /// Where regular files lie on their device.
    pub address: bool,
    /// Of a directory that is listed: which names are one in it.
    pub names: bool,
}

/// An object and what was found out about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its attributes.
    pub metadata: FileStat,
    /// Whether it has extended attributes that may not be read.
    pub has_hidden_xattrs: bool,
    /// Where a symbolic link points to.
    pub target: Option<Box<[u8]>>,
    /// Extended attributes by name, if they were asked for.
    pub xattrs: Vec<Xattr>,
    /// Start and end of every stretch of data of a file that has holes; none if it has none, or nobody asked.
    pub data: Option<Vec<(u64, u64)>>,
    /// Where the first byte of a file lies on its device, in bytes; none if the file system cannot tell, or nobody asked.
    pub address: Option<u64>,
    /// Whether the link that is to take its place would lead to it or into it by that name, if that was asked: the link would lead to itself
    /// or nowhere, and what it led to be lost.
    pub is_link_destination: bool,
}

/// A name in a directory without slashes, and what it stands for, or why that cannot be told.
pub type ListedEntry = (Box<[u8]>, Result<FileInfo, Fault>);

/// Which names are one in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NameMatching {
    /// Those with the same bytes alone.
    #[default]
    Exact,
    /// Also those that differ in whether accents are characters of their own (the normalization forms of Unicode).
    Normalized,
    /// Also those that differ in case alone.
    CaseInsensitive,
    /// Those as well that differ in dots and blanks at their ends, which are left out.
    CaseInsensitiveTrimmed,
}

/// Some of what is in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names, by inode.
    pub found: Vec<ListedEntry>,
    /// What [`super::Operation::ListMore`] continues with; none if this was all.
    pub more: Option<u64>,
    /// Which names are one there, if that was asked for and is known; if no more is known than of the root, [`NameMatching::Exact`].
    pub names: NameMatching,
}
