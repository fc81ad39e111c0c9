//! Whether a file system tells names apart that differ in case alone.

use super::kind::{kind, BEEGFS, BTRFS, CEPH, EXT, F2FS, GPFS, LUSTRE, NFS, OVERLAYFS, RAMFS, TMPFS, XFS};
use super::owner::with_new;
use super::Roots;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, IFlags, Mode, OFlags};
use rustix::io::Errno;

/// File systems that tell names apart unless a directory is marked otherwise.
const MARKED: [u32; 3] = [EXT, F2FS, TMPFS];
/// Those that always do, as they are used here.
const APART: [u32; 9] = [XFS, BTRFS, NFS, OVERLAYFS, LUSTRE, GPFS, CEPH, BEEGFS, RAMFS];
/// `FS_CASEFOLD_FL` (include/uapi/linux/fs.h).
const CASEFOLD: u32 = 0x4000_0000;
/// Most entries that are tried where nothing may be written.
const TRIED: usize = 100;

impl Roots {
    /// Whether names are one in the first root that differ in case alone. Where the kind of the file system does not tell, a file is made
    /// there, and removed; without `may_write` names that are there are tried, and where there are none they are taken for apart.
    pub fn folds_case(&self, may_write: bool) -> bool {
        self.roots.first().is_some_and(|root| folds(root, may_write).unwrap_or(false))
    }
}

fn folds(root: &OwnedFd, may_write: bool) -> Result<bool, Errno> {
    let kind = kind(root)?;
    if APART.contains(&kind) {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    if MARKED.contains(&kind) {
        return Ok(rustix::fs::ioctl_getflags(&directory)?.contains(IFlags::from_bits_retain(CASEFOLD)));
    }
    match may_write {
        true => folds_new(&directory),
        false => folds_old(&directory),
    }
}

/// By a file that is made and removed.
fn folds_new(directory: &OwnedFd) -> Result<bool, Errno> {
    with_new(directory.as_fd(), |_, name| {
        let other = rustix::fs::statat(directory, name.to_ascii_uppercase(), AtFlags::SYMLINK_NOFOLLOW);
        Ok(other.is_ok())
    })
}

/// By names that are there: one that is found under another name, which is not there itself.
fn folds_old(directory: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)?.take(TRIED) {
        let entry = entry?;
        let other = swapped(entry.file_name().to_bytes());
        if other == entry.file_name().to_bytes() {
            continue;
        }
        if rustix::fs::statat(directory, &*other, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(false);
        }
        let mut all = Dir::read_from(directory)?;
        return Ok(!all.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_bytes() == other)));
    }
    Ok(false)
}

/// With small letters for large ones, and large ones for small ones.
fn swapped(name: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    name.iter().map(one).collect()
}
