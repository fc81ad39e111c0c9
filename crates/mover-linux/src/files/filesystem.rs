//! File system types, which differ in supported attributes and reported errors (statfs(2),
//! `f_type`; include/uapi/linux/magic.h).

use super::Roots;
use rustix::fd::AsFd;
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

/// File systems on which syncfs(2) is insufficient: the kernel passes writes on without asking the
/// server to store them.
const UNSYNCED: [u32; 4] = [FUSE, SMB, SMB2, CIFS];

impl Roots {
    /// Returns whether syncfs(2) makes all data of the first root durable.
    pub fn supports_syncfs(&self) -> bool {
        !self.roots.first().is_some_and(|root| is_filesystem(root, &UNSYNCED))
    }
}

impl Roots {
    /// Returns whether files of the first root have individual modes. FAT and exFAT use one for all
    /// and ignore changes.
    pub fn has_modes(&self) -> bool {
        !self.roots.first().is_some_and(|root| is_filesystem(root, &[FAT, EXFAT]))
    }
}

/// Returns the type of the file system of a file.
pub fn kind(file: impl AsFd) -> Result<u32, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u32)
}

/// Returns whether the file system is one of these types; false if unknown.
pub fn is_filesystem(file: impl AsFd, kinds: &[u32]) -> bool {
    kind(file).is_ok_and(|kind| kinds.contains(&kind))
}
