//! Metadata of file system objects.

use super::fault::Fault;
use super::xattr::Xattr;

/// A time since 1970 in UTC: seconds rounded down, plus nanoseconds below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Full seconds, rounded down.
    pub seconds: i64,
    /// Additional nanoseconds.
    pub nanoseconds: u32,
}

/// The type of a file system object (inode(7)).
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

/// Attributes of an object, as returned by statx(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Type of the object.
    pub kind: FileKind,
    /// The lowest twelve bits of the mode.
    pub mode: u32,
    /// Owning user.
    pub user: u32,
    /// Owning group.
    pub group: u32,
    /// Size of a regular file in bytes, including holes.
    pub size: u64,
    /// Time of the last content change.
    pub mtime: Stamp,
    /// Time of the last change of the inode by the kernel's clock, with the file system's
    /// granularity. File systems without it (FUSE, FAT) report 0 or the `mtime`.
    pub ctime: Stamp,
    /// Inode number.
    pub inode: u64,
    /// Identifier of the file system.
    pub volume: u64,
    /// Number of hard links.
    pub links: u64,
}

impl FileStat {
    /// Returns the attributes that must not change while the object is read.
    pub fn identity(&self) -> Identity {
        Identity { inode: self.inode, size: self.size, mtime: self.mtime }
    }
}

/// Distinguishes versions of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last content change.
    pub mtime: Stamp,
}

/// Identifies a directory of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryIdentity {
    /// Identifier of the file system.
    pub volume: u64,
    /// Inode number.
    pub inode: u64,
    /// Hash of the file handle, if the file system has one: it may show several volumes as one,
    /// whose inode numbers are equal.
    pub handle: Option<u64>,
}

impl DirectoryIdentity {
    /// Returns whether both are the same directory, as far as known.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.volume, self.inode) == (other.volume, other.inode)
            && self.handle.zip(other.handle).is_none_or(|(one, other)| one == other)
    }
}

/// Optional metadata to collect; each costs additional system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details {
    /// Extended attributes, including POSIX ACLs.
    pub xattrs: bool,
    /// Data ranges of sparse files.
    pub holes: bool,
    /// Positions of regular files on their device.
    pub address: bool,
    /// For a listed directory: how it compares names.
    pub names: bool,
    /// File handles of directories.
    pub handles: bool,
}

/// An object and its collected metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its attributes.
    pub metadata: FileStat,
    /// Whether it has extended attributes that this process may not read.
    pub has_hidden_xattrs: bool,
    /// Target of a symbolic link.
    pub target: Option<Box<[u8]>>,
    /// Extended attributes by name, if requested.
    pub xattrs: Vec<Xattr>,
    /// Names of other extended attributes, which are not copied, if requested.
    pub other_xattrs: Vec<Box<[u8]>>,
    /// Start and end of each data range of a sparse file; `None` without holes or if not requested.
    pub data: Option<Vec<(u64, u64)>>,
    /// Position of the first byte on the device, in bytes; `None` if unknown or not requested.
    pub address: Option<u64>,
    /// Whether the symbolic link that would replace this object resolves to it or into it.
    ///
    /// Such a link would become dangling or refer to itself, and the object would be lost.
    pub is_link_destination: bool,
    /// Hash of the file handle of a directory; `None` if unknown or not requested.
    pub handle: Option<u64>,
}

impl FileInfo {
    /// Returns the identity of a directory.
    pub fn directory_identity(&self) -> DirectoryIdentity {
        let FileStat { volume, inode, .. } = self.metadata;
        DirectoryIdentity { volume, inode, handle: self.handle }
    }
}

/// A directory entry: its name without slashes, and its metadata or the error.
pub type ListedEntry = (Box<[u8]>, Result<FileInfo, Fault>);

/// How a directory compares names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NameMatching {
    /// Names are equal only if all bytes are equal.
    #[default]
    Exact,
    /// Names that differ only in Unicode normalization are equal.
    Normalized,
    /// Names that differ only in normalization or case are equal.
    CaseInsensitive,
    /// As [`NameMatching::CaseInsensitive`], and trailing dots and blanks are ignored.
    CaseInsensitiveTrimmed,
}

/// A part of a directory's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Entries, ordered by inode.
    pub found: Vec<ListedEntry>,
    /// Handle with which [`super::Operation::ListMore`] continues; `None` at the end.
    pub more: Option<u64>,
    /// How the directory compares names, if requested and known; [`NameMatching::Exact`] if only
    /// the root's behavior is known.
    pub names: NameMatching,
}

/// The attributes that a file system keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptAttributes {
    /// Modes of individual objects.
    pub modes: bool,
    /// Owners and groups.
    pub owners: bool,
    /// Modification times.
    pub times: bool,
    /// Extended attributes and ACLs.
    pub xattrs: bool,
}

impl KeptAttributes {
    /// No attributes.
    pub const NONE: Self = Self { modes: false, owners: false, times: false, xattrs: false };
}

impl Default for KeptAttributes {
    /// Returns all attributes.
    fn default() -> Self {
        Self { modes: true, owners: true, times: true, xattrs: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_with_equal_numbers_and_other_handles_differ() {
        let identity = |inode, handle| DirectoryIdentity { volume: 1, inode, handle };
        let subvolume = identity(256, Some(1));
        assert!(subvolume.is_same(&subvolume) && subvolume.is_same(&identity(256, None)));
        assert!(!subvolume.is_same(&identity(256, Some(2))) && !subvolume.is_same(&identity(257, Some(1))));
    }
}
