//! Ownership of files created by this process, which on some file systems is not its user.

use super::fault::fault;
use super::file_stat::file_stat;
use super::roots::Roots;
use super::temporary_file::{temporary_name, with_probe_file};
use numaio_mover::port::{Fault, FileStat};
use rustix::fd::BorrowedFd;
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
