//! The time of a directory in which temporary files are created.

use super::attributes::{set_time, Target};
use super::file_stat::file_stat;
use super::path::ResolvedName;
use numaio_mover::port::Stamp;
use rustix::fd::AsFd;
use rustix::io::Errno;

/// Restores the modification time of a directory, which is compared later, when it is dropped.
#[derive(Debug)]
pub struct DirectoryTime<F: AsFd> {
    pub directory: F,
    mtime: Stamp,
}

impl<F: AsFd> DirectoryTime<F> {
    /// Reads the time of a directory.
    pub fn of(directory: F) -> Result<Self, Errno> {
        let mtime = file_stat(&rustix::fs::fstat(&directory)?).mtime;
        Ok(Self { directory, mtime })
    }
}

impl<F: AsFd> Drop for DirectoryTime<F> {
    fn drop(&mut self) {
        // By name, as the directory may be open for its path only.
        let here = ResolvedName { directory: self.directory.as_fd(), name: b"." };
        // Fails for another user's directory, whose time is not compared or cannot be set anyway.
        let _ = set_time(Target::Named(here), self.mtime.seconds, self.mtime.nanoseconds);
    }
}
