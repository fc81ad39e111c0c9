//! Temporary files, and their final names.

use super::path::ResolvedName;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Examines an empty temporary file, which is then removed.
pub fn with_probe_file<T>(
    directory: BorrowedFd<'_>,
    name: &str,
    look: impl FnOnce(&OwnedFd, &str) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let result = look(&file, name);
    close_before_removal(file);
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    result
}

/// Closes an empty file that is removed next: NFS and libfuse keep an open one under another name.
///
/// With a byte in it, it is stored when it is closed. rclone stores an empty file later, and thus
/// again after the removal.
pub fn close_before_removal(file: OwnedFd) {
    let _ = rustix::io::pwrite(&file, b"\0", 0);
}

/// Creates an object, and replaces an existing one unless it is a directory.
pub fn create_or_replace(
    place: ResolvedName<'_>,
    make: impl Fn(ResolvedName<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match make(place) {
        Err(Errno::EXIST) => replace_atomically(place, |errno| errno, make),
        made => made,
    }
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
