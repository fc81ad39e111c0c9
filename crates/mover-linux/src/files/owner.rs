//! Ownership of files created by this process, which on some file systems is not its user.

use super::fault::fault;
use super::path::resolver::ResolvedName;
use super::stat::file_stat;
use super::Roots;
use numaio_mover::port::{Fault, FileStat};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::sync::PoisonError;

impl Roots {
    /// Returns whether this process may have created a file. Mounts with `uid=` assign one owner to
    /// all files, and NFS maps root to another user: for a file of another user, a probe file
    /// determines the owner of new files, once per volume.
    pub(super) fn is_ours(&self, directory: BorrowedFd<'_>, file: &FileStat) -> Result<bool, Fault> {
        if file.user == self.user {
            return Ok(true);
        }
        let mut known = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = match *known {
            Some((volume, owner)) if volume == file.volume => owner,
            _ => with_probe_file(
                directory,
                &temporary_name().map_err(fault("generate file name"))?,
                |new, _| Ok(file_stat(&rustix::fs::fstat(new)?).user),
            )
            .map_err(fault("create probe file"))?,
        };
        *known = Some((file.volume, owner));
        Ok(owner == file.user)
    }
}

/// Examines an empty temporary file, which is then removed.
pub fn with_probe_file<T>(
    directory: BorrowedFd<'_>,
    name: &str,
    look: impl FnOnce(&OwnedFd, &str) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let result = look(&file, name);
    // NFS keeps an open removed file under another name until it is closed.
    drop(file);
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    result
}

/// Creates an object under a temporary name and renames it to `place`, replacing an existing one.
/// Removes it on failure; `fault` converts errors.
pub fn replace_atomically<T, E>(
    place: ResolvedName<'_>,
    fault: impl Fn(Errno) -> E,
    make: impl FnOnce(ResolvedName<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let name = temporary_name().map_err(&fault)?;
    let beside = ResolvedName { name: name.as_bytes(), ..place };
    let named = make(beside).and_then(|made| {
        rustix::fs::renameat(beside.directory, &name, place.directory, place.name).map_err(&fault)?;
        // Renaming between hard links of one file keeps both (rename(2)), and file systems may hide
        // that they are the same file.
        let _ = rustix::fs::unlinkat(beside.directory, &name, AtFlags::empty());
        Ok(made)
    });
    named.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(beside.directory, &name, AtFlags::empty());
    })
}

/// Returns a random unused name, like those of a sink's temporary files.
pub fn temporary_name() -> Result<String, Errno> {
    let random = numaio_linux::random::bytes::<16>().map_err(|_| Errno::IO)?;
    Ok(format!(".numaio-part-{:032x}", u128::from_ne_bytes(random)))
}
