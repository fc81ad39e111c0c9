//! Which names a file system takes for one: those that differ in case alone, in dots at their ends, or in how accents are written.

use super::attributes::{set_time, Target};
use super::filesystem::{kind, BEEGFS, BTRFS, CEPH, EXFAT, EXT, F2FS, FAT, GPFS, LUSTRE, RAMFS, TMPFS, XFS};
use super::owner::{temporary_name, with_probe_file};
use super::stat::file_stat;
use super::Roots;
use numaio_machine::port::Names;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

/// File systems that tell names apart unless a directory is marked otherwise.
const MARKED_PER_DIRECTORY: [u32; 3] = [EXT, F2FS, TMPFS];
/// Those that always do, as they are used here. NFS and overlayfs do what is below them does.
const CASE_SENSITIVE: [u32; 6] = [BTRFS, LUSTRE, GPFS, CEPH, BEEGFS, RAMFS];
/// Those that never do, and leave out dots at the ends of names (`vfat_striptail_len` in fs/fat/namei_vfat.c, `exfat_striptail_len` in
/// fs/exfat/namei.c).
const CASE_INSENSITIVE: [u32; 2] = [FAT, EXFAT];
/// `FS_CASEFOLD_FL` (include/uapi/linux/fs.h).
const CASEFOLD: u32 = 0x4000_0000;
/// Most entries that are tried where nothing may be written.
const MAX_TRIED: usize = 100;

impl Roots {
    /// Which names are one in the first root. Where the kind of the file system does not tell, files are made there, and removed; without
    /// `may_write` names that are there are tried, and where there are none they are taken for apart.
    pub fn names(&self, may_write: bool) -> Names {
        self.roots.first().and_then(|root| names_of(root, may_write).ok()).unwrap_or_default()
    }
}

fn names_of(root: &OwnedFd, may_write: bool) -> Result<Names, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    match by_kind(&directory)? {
        Some(names) => Ok(names),
        None if may_write => probe_with_new_files(&directory),
        None => Ok(if is_case_insensitive(&directory)? { Names::Folded } else { Names::Apart }),
    }
}

/// Which names are one in a directory below a root, if more is known of it than of the root.
pub fn names_in(directory: &OwnedFd, root: &OwnedFd) -> Names {
    let volume = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| file_stat(&stat).volume).ok();
    match by_kind(directory) {
        Ok(Some(names)) => names,
        // It is another file system. Whether it leaves out dots is not known: the most is taken to be one.
        Ok(None) if volume(directory) != volume(root) && is_case_insensitive(directory).unwrap_or(false) => {
            Names::FoldedAndCut
        }
        _ => Names::Apart,
    }
}

/// As the kind of the file system tells, if it does.
fn by_kind(directory: &OwnedFd) -> Result<Option<Names>, Errno> {
    let kind = kind(directory)?;
    if MARKED_PER_DIRECTORY.contains(&kind) {
        let is_marked = rustix::fs::ioctl_getflags(directory)?.contains(IFlags::from_bits_retain(CASEFOLD));
        return Ok(Some(if is_marked { Names::Folded } else { Names::Apart }));
    }
    if kind == XFS {
        return Ok(Some(if is_ascii_ci(directory) { Names::Folded } else { Names::Apart }));
    }
    let cut = CASE_INSENSITIVE.contains(&kind).then_some(Names::FoldedAndCut);
    Ok(cut.or_else(|| CASE_SENSITIVE.contains(&kind).then_some(Names::Apart)))
}

/// Whether an XFS was made with `version=ci`: it takes names for one that differ in the case of letters of ASCII
/// (fs/xfs/libxfs/xfs_fs.h, `XFS_IOC_FSGEOMETRY_V1` and `XFS_FSOP_GEOM_FLAGS_DIRV2CI`).
fn is_ascii_ci(directory: &OwnedFd) -> bool {
    const GEOMETRY: u32 = 0x8070_5864;
    const FLAGS: usize = 92 / 4;
    const FOLDS: u32 = 1 << 12;
    let mut geometry = [0u32; 112 / 4];
    // SAFETY: the kernel writes 112 bytes, as the number of the request says, which the array has.
    let done = unsafe {
        libc::ioctl(
            directory.as_raw_fd(),
            GEOMETRY as libc::Ioctl,
            (&raw mut geometry).cast::<libc::c_void>(),
        )
    };
    done == 0 && geometry[FLAGS] & FOLDS != 0
}

/// By files that are made and removed. The directory keeps its time, by which it is compared.
fn probe_with_new_files(directory: &OwnedFd) -> Result<Names, Errno> {
    let stat = rustix::fs::fstat(directory)?;
    let result = create_probe_files(directory);
    let before = file_stat(&stat).mtime;
    // It is another one's: then its time differs anyway, or is not for us to set.
    let _ = set_time(Target::Open(directory.as_fd()), before.seconds, before.nanoseconds);
    result
}

fn create_probe_files(directory: &OwnedFd) -> Result<Names, Errno> {
    let is_there = |name: &str| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let (is_case_insensitive, cuts) = with_probe_file(directory.as_fd(), &temporary_name()?, |_, name| {
        Ok((is_there(&name.to_ascii_uppercase()), is_there(&format!("{name}."))))
    })?;
    // One letter with an accent, and a letter and an accent: a file system may refuse both.
    let beside = temporary_name()?;
    let joined = format!("{beside}\u{e9}");
    let apart =
        with_probe_file(directory.as_fd(), &joined, |_, _| Ok(is_there(&format!("{beside}e\u{301}"))));
    Ok(match (is_case_insensitive, apart) {
        _ if cuts => Names::FoldedAndCut,
        (true, _) => Names::Folded,
        // As ZFS with its property `normalization`.
        (false, Ok(true)) => Names::Normalized,
        _ => Names::Apart,
    })
}

/// Whether names are one that differ in case, by names that are there: one that is found under another name, which is not there itself.
fn is_case_insensitive(directory: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)?.take(MAX_TRIED) {
        let entry = entry?;
        let other = swap_case(entry.file_name().to_bytes());
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
fn swap_case(name: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    name.iter().map(one).collect()
}
