//! Removing.

use super::beneath::Beneath;
use super::fault::fault;
use numaio_machine::port::{Fault, FilePath};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// Removes something with all that it holds.
pub fn remove(beneath: &mut Beneath<'_>, at: &FilePath) -> Result<(), Fault> {
    let place = match beneath.place_or_errno(at) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        place => place.map_err(fault("open the directory"))?,
    };
    place.not_the_root()?;
    remove_name(place.directory, place.name).map_err(fault("remove it"))
}

fn remove_name(directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => remove_directory(directory, name),
        result => result,
    }
}

fn remove_directory(above: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(above, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            remove_name(directory.as_fd(), name)?;
        }
    }
    rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
}
