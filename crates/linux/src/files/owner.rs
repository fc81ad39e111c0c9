//! Whom files belong to that this process makes: on some file systems not to its user.

use super::fault::fault;
use super::resolve::ResolvedName;
use super::stat::file_stat;
use super::Roots;
use numaio_machine::port::{Fault, Seen};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::sync::PoisonError;

impl Roots {
    /// Whether a file may be one that we made in a directory. Mounts with `uid=` give all files one owner, and NFS gives those
    /// of root another one: where a file is not our user's, one is made to see, once for a volume.
    pub(super) fn is_ours(&self, directory: BorrowedFd<'_>, file: &Seen) -> Result<bool, Fault> {
        if file.user == self.user {
            return Ok(true);
        }
        let mut known = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = match *known {
            Some((volume, owner)) if volume == file.volume => owner,
            _ => with_probe_file(directory, &temporary_name().map_err(fault("name a file"))?, |new, _| {
                Ok(file_stat(&rustix::fs::fstat(new)?).user)
            })
            .map_err(fault("make a file beside it"))?,
        };
        *known = Some((file.volume, owner));
        Ok(owner == file.user)
    }
}

/// Looks at an empty file that is made for it under a name that nobody has, and removed.
pub fn with_probe_file<T>(
    directory: BorrowedFd<'_>,
    name: &str,
    look: impl FnOnce(&OwnedFd, &str) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let told = look(&file, name);
    // NFS keeps what is removed while it is open, under another name, until it is closed.
    drop(file);
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    told
}

/// Makes something under a name that nobody has, and gives it the one of `place`, where something else may be till then. Nothing of it
/// is left if that fails, of which the kernel's errors go through `fault`.
pub fn replace_atomically<T, E>(
    place: ResolvedName<'_>,
    fault: impl Fn(Errno) -> E,
    make: impl FnOnce(ResolvedName<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let name = temporary_name().map_err(&fault)?;
    let beside = ResolvedName { name: name.as_bytes(), ..place };
    let named = make(beside).and_then(|made| {
        rustix::fs::renameat(beside.directory, &name, place.directory, place.name).map_err(&fault)?;
        // Of two names of one file both stay (rename(2)), as may be unknown where each has an inode number of its own.
        let _ = rustix::fs::unlinkat(beside.directory, &name, AtFlags::empty());
        Ok(made)
    });
    named.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(beside.directory, &name, AtFlags::empty());
    })
}

/// A name that nobody has, such as a sink gives files itself.
pub fn temporary_name() -> Result<String, Errno> {
    let random = crate::random::bytes::<16>().map_err(|_| Errno::IO)?;
    Ok(format!(".numaio-part-{:032x}", u128::from_ne_bytes(random)))
}
