//! Where the symbolic links of a source may lead.

use super::beneath::find_below;
use super::resolved_name::ResolvedName;
use crate::files::proc::path_of_fd;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where the symbolic links of a source may lead.
#[derive(Debug)]
pub enum LinkScope {
    /// Anywhere on this machine.
    Host,
    /// Below a directory.
    Below(OwnedFd),
}

impl LinkScope {
    /// Opens a path in a directory, following all links.
    pub fn open(&self, place: ResolvedName<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let Self::Below(within) = self else {
            return rustix::fs::openat(place.directory, place.name, flags, Mode::empty());
        };
        // The directory may be reached through links, which its real path does not contain.
        let (root, directory) = (real_path(within.as_fd())?, real_path(place.directory)?);
        let path = directory.strip_prefix(&root).map_err(|_| Errno::XDEV)?;
        let path = [path.as_os_str().as_bytes(), place.name].join(&b'/');
        find_below(within.as_fd(), path.strip_prefix(b"/").unwrap_or(&path), flags)
    }

    /// Opens the regular file to which a symbolic link leads, for reading.
    pub fn open_file(&self, place: ResolvedName<'_>) -> Result<OwnedFd, Errno> {
        // Other objects might block or have effects when they are opened.
        reopen(&self.open(place, OFlags::PATH)?).unwrap_or(Err(Errno::LOOP))
    }

    /// Opens the directory to which a symbolic link leads, for listing.
    pub fn open_directory(&self, place: ResolvedName<'_>) -> Result<OwnedFd, Errno> {
        let target = self.open(place, OFlags::PATH | OFlags::DIRECTORY)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(target, ".", flags, Mode::empty())
    }
}

/// Opens a regular file again for reading; `None` for other objects.
pub fn reopen(target: &OwnedFd) -> Option<Result<OwnedFd, Errno>> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(target).ok()?.st_mode);
    let path = format!("/proc/self/fd/{}", target.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    (kind == FileType::RegularFile).then(|| rustix::fs::open(path, flags, Mode::empty()))
}

fn real_path(directory: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    // Without /proc the path is unknown, and not absent.
    let errno = |error: io::Error| match Errno::from_io_error(&error) {
        None | Some(Errno::NOENT) => Errno::NOSYS,
        Some(errno) => errno,
    };
    path_of_fd(&directory.try_clone_to_owned().map_err(errno)?).map_err(errno)
}
