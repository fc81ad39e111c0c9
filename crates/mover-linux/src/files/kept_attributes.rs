//! Which attributes a file system keeps: some accept all changes and ignore them.

use super::attributes::{set_mode, set_time, Target};
use super::directory_time::DirectoryTime;
use super::file_stat::file_stat;
use super::filesystem::{is_filesystem, EXFAT, FAT};
use super::roots::Roots;
use super::temporary_file::{temporary_name, with_probe_file};
use numaio_mover::port::KeptAttributes;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

/// A time in 2001, in even seconds as FAT stores them.
const SECONDS: i64 = 1_000_000_000;
/// A mode that differs from that of a new file, and from what file systems make of all modes.
const MODE: u32 = 0o640;
/// Owner and group that no file has at first.
const OTHER_ID: u32 = 1;

impl Roots {
    /// Returns which of the wanted attributes the first root's file system keeps.
    ///
    /// Unless the file system is one of the kernel that keeps all, a temporary file is created
    /// and examined. Without `may_write`, or if that fails, all are assumed to be kept.
    pub fn kept_attributes(&self, wanted: KeptAttributes, may_write: bool) -> KeptAttributes {
        let Some(root) = self.roots.first() else { return KeptAttributes::default() };
        let by_type =
            KeptAttributes { modes: !is_filesystem(root, &[FAT, EXFAT]), ..KeptAttributes::default() };
        let volume = rustix::fs::fstat(root).map_or(0, |stat| stat.st_dev);
        match self.is_local(volume) || !may_write {
            true => by_type,
            false => probe(root, wanted, self.super_user).unwrap_or(by_type),
        }
    }
}

/// Examines a temporary file.
fn probe(root: &OwnedFd, wanted: KeptAttributes, super_user: bool) -> Result<KeptAttributes, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    let _time = DirectoryTime::of(&directory)?;
    with_probe_file(directory.as_fd(), &temporary_name()?, |file, _| {
        let mut kept = KeptAttributes::default();
        if wanted.owners && super_user {
            kept.owners = keeps_owners(file)?;
        }
        if wanted.modes {
            kept.modes = keeps_modes(file)?;
        }
        if wanted.xattrs {
            kept.xattrs = keeps_xattrs(file);
        }
        if wanted.times {
            kept.times = keeps_times(file)?;
        }
        Ok(kept)
    })
}

fn keeps_owners(file: &OwnedFd) -> Result<bool, Errno> {
    let (user, group) = (Uid::from_raw(OTHER_ID), Gid::from_raw(OTHER_ID));
    let is_set = rustix::fs::fchown(file, Some(user), Some(group)).is_ok();
    let found = rustix::fs::fstat(file)?;
    Ok(is_set && (found.st_uid, found.st_gid) == (OTHER_ID, OTHER_ID))
}

fn keeps_modes(file: &OwnedFd) -> Result<bool, Errno> {
    let is_set = set_mode(Target::Open(file.as_fd()), MODE).is_ok();
    Ok(is_set && file_stat(&rustix::fs::fstat(file)?).mode == MODE)
}

fn keeps_times(file: &OwnedFd) -> Result<bool, Errno> {
    let is_set = set_time(Target::Open(file.as_fd()), SECONDS, 0).is_ok();
    Ok(is_set && file_stat(&rustix::fs::fstat(file)?).mtime.seconds == SECONDS)
}

/// Only user attributes are tried: file systems with ACLs have these, too.
fn keeps_xattrs(file: &OwnedFd) -> bool {
    let mut value = [0];
    match rustix::fs::fsetxattr(file, "user.numaio", b"1", XattrFlags::empty()) {
        Ok(()) => rustix::fs::fgetxattr(file, "user.numaio", &mut value) == Ok(1) && value == *b"1",
        Err(errno) => matches!(errno, Errno::NOSPC | Errno::DQUOT),
    }
}
