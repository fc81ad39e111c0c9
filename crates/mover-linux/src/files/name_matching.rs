//! Which names a file system treats as equal: by case, trailing dots, or the composition of
//! accents.

use super::directory_time::DirectoryTime;
use super::file_stat::file_stat;
use super::filesystem::{kind, BEEGFS, BTRFS, CEPH, EXFAT, EXT, F2FS, FAT, GPFS, LUSTRE, RAMFS, TMPFS, XFS};
use super::roots::Roots;
use super::temporary_file::{temporary_name, with_probe_file};
use numaio_mover::port::NameMatching;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

/// File systems that are case-sensitive unless a directory is marked otherwise.
const MARKED_PER_DIRECTORY: [u32; 3] = [EXT, F2FS, TMPFS];
/// Case-sensitive file systems. NFS and overlayfs depend on the underlying one.
const CASE_SENSITIVE: [u32; 6] = [BTRFS, LUSTRE, GPFS, CEPH, BEEGFS, RAMFS];
/// Case-insensitive file systems, which also ignore trailing dots (`vfat_striptail_len` in
/// fs/fat/namei_vfat.c, `exfat_striptail_len` in fs/exfat/namei.c).
const CASE_INSENSITIVE: [u32; 2] = [FAT, EXFAT];
/// `FS_CASEFOLD_FL` (include/uapi/linux/fs.h).
const CASEFOLD: u32 = 0x4000_0000;
/// Maximum number of existing entries examined if nothing may be written.
const MAX_TRIED: usize = 100;

impl Roots {
    /// Returns how the first root matches names. If the file system type does not determine it,
    /// temporary files are created; without `may_write`, or if that fails, existing names are
    /// examined. What stays unknown is assumed to be equal if files are written, so that no file
    /// overwrites another one.
    pub fn names(&self, may_write: Option<NewFiles>) -> NameMatching {
        let Some(root) = self.roots.first() else { return NameMatching::Exact };
        let unknown = match may_write {
            Some(_) => NameMatching::CaseInsensitiveTrimmed,
            None => NameMatching::Exact,
        };
        names_of(root, may_write == Some(NewFiles::Removable)).ok().flatten().unwrap_or(unknown)
    }
}

/// Whether temporary files can be removed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewFiles {
    /// They can.
    Removable,
    /// They cannot, so that none is created to examine the file system.
    Permanent,
}

/// Returns how a directory matches names, if that can be determined.
fn names_of(root: &OwnedFd, may_write: bool) -> Result<Option<NameMatching>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    if let Some(names) = by_kind(&directory)? {
        return Ok(Some(names));
    }
    if may_write {
        if let Ok(names) = probe_with_new_files(&directory) {
            return Ok(Some(names));
        }
    }
    let names = |is_insensitive| match is_insensitive {
        true => NameMatching::CaseInsensitive,
        false => NameMatching::Exact,
    };
    Ok(is_case_insensitive(&directory)?.map(names))
}

/// Returns how a directory below a root matches names, if known to differ from the root.
pub fn names_in(directory: &OwnedFd, root: &OwnedFd) -> NameMatching {
    let volume = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| file_stat(&stat).volume).ok();
    match by_kind(directory) {
        Ok(Some(names)) => names,
        // Another file system, which may ignore trailing dots, too: assume that it does.
        Ok(None) if volume(directory) != volume(root) && is_case_insensitive(directory) == Ok(Some(true)) => {
            NameMatching::CaseInsensitiveTrimmed
        }
        _ => NameMatching::Exact,
    }
}

/// Determines matching from the file system type, if possible.
fn by_kind(directory: &OwnedFd) -> Result<Option<NameMatching>, Errno> {
    let kind = kind(directory)?;
    if MARKED_PER_DIRECTORY.contains(&kind) {
        let is_marked = rustix::fs::ioctl_getflags(directory)?.contains(IFlags::from_bits_retain(CASEFOLD));
        return Ok(Some(if is_marked { NameMatching::CaseInsensitive } else { NameMatching::Exact }));
    }
    if kind == XFS {
        return Ok(Some(if is_ascii_ci(directory) {
            NameMatching::CaseInsensitive
        } else {
            NameMatching::Exact
        }));
    }
    let cut = CASE_INSENSITIVE.contains(&kind).then_some(NameMatching::CaseInsensitiveTrimmed);
    Ok(cut.or_else(|| CASE_SENSITIVE.contains(&kind).then_some(NameMatching::Exact)))
}

/// Returns whether an XFS was created with `version=ci`, which ignores the case of ASCII letters
/// (fs/xfs/libxfs/xfs_fs.h, `XFS_IOC_FSGEOMETRY_V1` and `XFS_FSOP_GEOM_FLAGS_DIRV2CI`).
fn is_ascii_ci(directory: &OwnedFd) -> bool {
    const GEOMETRY: u32 = 0x8070_5864;
    const FLAGS: usize = 92 / 4;
    const FOLDS: u32 = 1 << 12;
    let mut geometry = [0u32; 112 / 4];
    // SAFETY: the kernel writes 112 bytes, as encoded in the request, which is the size of the
    // array.
    let done = unsafe {
        libc::ioctl(
            directory.as_raw_fd(),
            GEOMETRY as libc::Ioctl,
            (&raw mut geometry).cast::<libc::c_void>(),
        )
    };
    done == 0 && geometry[FLAGS] & FOLDS != 0
}

/// Determines matching with temporary files.
fn probe_with_new_files(directory: &OwnedFd) -> Result<NameMatching, Errno> {
    let _time = DirectoryTime::of(directory)?;
    let is_there = |name: &str| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let (is_case_insensitive, cuts) = with_probe_file(directory.as_fd(), &temporary_name()?, |_, name| {
        Ok((is_there(&name.to_ascii_uppercase()), is_there(&format!("{name}."))))
    })?;
    // A composed and a decomposed accent; a file system may reject both names.
    let beside = temporary_name()?;
    let joined = format!("{beside}\u{e9}");
    let apart =
        with_probe_file(directory.as_fd(), &joined, |_, _| Ok(is_there(&format!("{beside}e\u{301}"))));
    Ok(match (is_case_insensitive, apart) {
        _ if cuts => NameMatching::CaseInsensitiveTrimmed,
        (true, _) => NameMatching::CaseInsensitive,
        // For example ZFS with its property `normalization`.
        (false, Ok(true)) => NameMatching::Normalized,
        _ => NameMatching::Exact,
    })
}

/// Determines case sensitivity from existing names: one found by another case that is not listed
/// itself. `None` without a suitable name.
fn is_case_insensitive(directory: &OwnedFd) -> Result<Option<bool>, Errno> {
    for entry in Dir::read_from(directory)?.take(MAX_TRIED) {
        let entry = entry?;
        let other = swap_case(entry.file_name().to_bytes());
        if other == entry.file_name().to_bytes() {
            continue;
        }
        if rustix::fs::statat(directory, &*other, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(Some(false));
        }
        let mut all = Dir::read_from(directory)?;
        return Ok(Some(!all.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_bytes() == other))));
    }
    Ok(None)
}

/// Swaps the case of ASCII letters.
fn swap_case(name: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    name.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fuse::{Volume, CREATE};
    use super::*;

    #[test]
    fn unknown_matching_lets_no_name_overwrite_another() {
        let refused = |request, _| if request == CREATE { libc::EACCES } else { 0 };
        let Some(volume) = Volume::mount("names", refused) else { return };
        let roots = Roots::open(&[volume.path()]).expect("a root");
        for new_files in [NewFiles::Removable, NewFiles::Permanent] {
            assert_eq!(roots.names(Some(new_files)), NameMatching::CaseInsensitiveTrimmed);
        }
        assert_eq!(roots.names(None), NameMatching::Exact, "nothing is written");
    }
}
