//! File system types, which differ in supported attributes and reported errors (statfs(2),
//! `f_type`; include/uapi/linux/magic.h).

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// ext2 to ext4.
pub const EXT: u32 = 0xef53;
/// XFS.
pub const XFS: u32 = 0x5846_5342;
/// Btrfs.
pub const BTRFS: u32 = 0x9123_683e;
/// F2FS.
pub const F2FS: u32 = 0xf2f5_2010;
/// tmpfs.
pub const TMPFS: u32 = 0x0102_1994;
/// ramfs.
pub const RAMFS: u32 = 0x8584_58f6;
/// overlayfs.
pub const OVERLAYFS: u32 = 0x794c_7630;
/// sshfs and many others.
pub const FUSE: u32 = 0x6573_5546;
/// FAT (vfat).
pub const FAT: u32 = 0x4d44;
/// exFAT.
pub const EXFAT: u32 = 0x2011_bab0;
/// SMB (smbfs).
pub const SMB: u32 = 0x517b;
/// CIFS.
pub const CIFS: u32 = 0xff53_4d42;
/// SMB2.
pub const SMB2: u32 = 0xfe53_4d42;
/// 9P.
pub const P9: u32 = 0x0102_1997;
/// Lustre.
pub const LUSTRE: u32 = 0x0bd0_0bd0;
/// IBM Storage Scale (GPFS).
pub const GPFS: u32 = 0x4750_4653;
/// CephFS.
pub const CEPH: u32 = 0x00c3_6400;
/// BeeGFS.
pub const BEEGFS: u32 = 0x1983_0326;

/// Returns the type of the file system of a file.
pub fn kind(file: impl AsFd) -> Result<u32, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u32)
}

/// Returns whether a directory is on a memory file system.
pub fn is_in_memory(directory: &OwnedFd) -> bool {
    rustix::fs::fstatfs(directory).is_ok_and(|stat| numaio_linux::io::is_memory(stat.f_type))
}

/// Returns whether the file system is one of these types; false if unknown.
pub fn is_filesystem(file: impl AsFd, kinds: &[u32]) -> bool {
    kind(file).is_ok_and(|kind| kinds.contains(&kind))
}
