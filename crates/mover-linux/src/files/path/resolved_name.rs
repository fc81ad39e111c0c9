//! Names in open directories.

use numaio_mover::port::{Fault, FaultKind};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;

/// A name resolved to its open directory.
#[derive(Clone, Copy)]
pub struct ResolvedName<'a> {
    /// Open directory.
    pub directory: BorrowedFd<'a>,
    /// Name in the directory; `.` for a root itself.
    pub name: &'a [u8],
}

impl ResolvedName<'_> {
    /// Opens the file without following a symbolic link. Does not wait for the other end of a FIFO,
    /// but for the holder of a lease (fcntl(2), `F_SETLEASE`), such as a file server.
    pub fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::openat(self.directory, self.name, flags | OFlags::NONBLOCK, mode) {
            Err(Errno::AGAIN) => self.open_leased(flags),
            opened => opened,
        }
    }

    /// Opens a leased regular file through an O_PATH descriptor, so that nothing can replace it
    /// while waiting.
    fn open_leased(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(self.directory, self.name, path, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) != FileType::RegularFile {
            return Err(Errno::AGAIN);
        }
        let flags = flags - OFlags::NOFOLLOW - OFlags::CREATE;
        rustix::fs::open(format!("/proc/self/fd/{}", held.as_raw_fd()), flags, Mode::empty())
    }

    /// Rejects the root itself, which stays a directory.
    pub fn not_the_root(&self) -> Result<(), Fault> {
        match self.name {
            b"." => Err(Fault::new(FaultKind::Exists, "the root of the transfer must remain a directory")),
            _ => Ok(()),
        }
    }

    /// Returns a path through the open directory (proc_pid_fd(5)). Calls that do not follow links
    /// do not follow its last component.
    pub fn proc_path(&self) -> Result<CString, Errno> {
        let directory = format!("/proc/self/fd/{}/", self.directory.as_raw_fd());
        CString::new([directory.as_bytes(), self.name].concat()).map_err(|_| Errno::INVAL)
    }
}
