//! Refusals of FUSE file systems: many store objects, which are written from their
//! start and not renamed.
//!
//! Mountpoint for S3 fails a write behind the end with `EINVAL` and any rename (SEMANTICS.md),
//! rclone without a cache of writes with `ESPIPE` (vfs/write.go), others with `EPERM`, `EIO` or
//! `ENOTSUP`.

use super::directory_time::DirectoryTime;
use super::filesystem::{is_filesystem, FUSE};
use super::flush::flush_errno;
use super::name_matching::NewFiles;
use super::roots::Roots;
use super::temporary_file::temporary_name;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{retry_on_intr, Errno};

/// Errors of an operation that a file system does not have. All others, such as a full disk, prove
/// nothing.
const UNABLE: [Errno; 9] = [
    Errno::INVAL,
    Errno::SPIPE,
    Errno::PERM,
    Errno::NOTSUP,
    Errno::NOSYS,
    Errno::IO,
    Errno::BADF,
    Errno::EXIST,
    Errno::XDEV,
];
/// Offset of the byte that is written behind the end of the file, in bytes: in another page.
const BEHIND_END: u64 = 1 << 16;

/// The operations of writers that a file system accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteAbilities {
    /// Whether data is accepted at any offset; otherwise only at the end of a file that was opened
    /// by the same process and is still open.
    pub any_offset: bool,
    /// Whether files can be renamed.
    pub renames: bool,
    /// Temporary files in the first root that could not be removed.
    pub left: Vec<String>,
}

impl WriteAbilities {
    /// Returns whether temporary files can be removed.
    pub fn new_files(&self) -> NewFiles {
        if self.left.is_empty() {
            NewFiles::Removable
        } else {
            NewFiles::Permanent
        }
    }
}

impl Default for WriteAbilities {
    /// Returns all abilities.
    fn default() -> Self {
        Self { any_offset: true, renames: true, left: Vec::new() }
    }
}

impl Roots {
    /// Returns whether the first root may refuse what local file systems accept.
    fn may_lack_abilities(&self) -> bool {
        self.roots.first().is_some_and(|root| is_filesystem(root, &[FUSE]))
    }

    /// Returns the operations of writers that the file system of the first root accepts, tried with
    /// temporary files if it is FUSE. What cannot be tried is assumed to be accepted.
    pub fn write_abilities(&self) -> WriteAbilities {
        match self.roots.first().filter(|_| self.may_lack_abilities()) {
            Some(root) => probe(root).unwrap_or_default(),
            None => WriteAbilities::default(),
        }
    }
}

fn probe(root: &OwnedFd) -> Result<WriteAbilities, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    let _time = DirectoryTime::of(&directory);
    let names = [temporary_name()?, temporary_name()?];
    let tried = try_writes(&directory, &names);
    let is_left = |name: &&String| {
        let removed = rustix::fs::unlinkat(&directory, name.as_str(), AtFlags::empty());
        removed.is_err_and(|errno| errno != Errno::NOENT)
    };
    let left = names.iter().filter(is_left).cloned().collect();
    let (any_offset, renames) = tried.unwrap_or((true, true));
    Ok(WriteAbilities { any_offset, renames, left })
}

/// Returns whether writes at any offset, and renames, are accepted.
fn try_writes(directory: &OwnedFd, [first, second]: &[String; 2]) -> Result<(bool, bool), Errno> {
    let any_offset = is_able(write_at(directory, first, &[0, BEHIND_END]))?;
    if !any_offset {
        // The failed write may have left nothing that could be renamed.
        let written = write_at(directory, first, &[0]);
        written.or_else(|errno| if errno == Errno::EXIST { Ok(()) } else { Err(errno) })?;
    }
    let renamed = rustix::fs::renameat(directory, first.as_str(), directory, second.as_str());
    Ok((any_offset, is_able(renamed)?))
}

/// Creates a file, and writes a byte at each of these offsets in turn.
fn write_at(directory: &OwnedFd, name: &str, offsets: &[u64]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    for offset in offsets {
        retry_on_intr(|| rustix::io::pwrite(&file, b"\0", *offset))?;
    }
    // The kernel may pass data on only when the file is closed.
    flush_errno(file.as_fd())
}

fn is_able(done: Result<(), Errno>) -> Result<bool, Errno> {
    match done {
        Ok(()) => Ok(true),
        Err(errno) if UNABLE.contains(&errno) => Ok(false),
        Err(errno) => Err(errno),
    }
}
