//! Kinds of file systems, which differ in what they tell and keep (statfs(2), `f_type`; include/uapi/linux/magic.h).

use super::Roots;
use rustix::fd::AsFd;
use rustix::io::Errno;

/// ext2 to ext4.
pub const EXT: u32 = 0xef53;
pub const XFS: u32 = 0x5846_5342;
pub const BTRFS: u32 = 0x9123_683e;
pub const F2FS: u32 = 0xf2f5_2010;
pub const TMPFS: u32 = 0x0102_1994;
pub const RAMFS: u32 = 0x8584_58f6;
pub const OVERLAYFS: u32 = 0x794c_7630;
/// sshfs, and many others.
pub const FUSE: u32 = 0x6573_5546;
pub const FAT: u32 = 0x4d44;
pub const EXFAT: u32 = 0x2011_bab0;
pub const SMB: u32 = 0x517b;
pub const CIFS: u32 = 0xff53_4d42;
pub const SMB2: u32 = 0xfe53_4d42;
pub const P9: u32 = 0x0102_1997;
pub const LUSTRE: u32 = 0x0bd0_0bd0;
pub const GPFS: u32 = 0x4750_4653;
pub const CEPH: u32 = 0x00c3_6400;
pub const BEEGFS: u32 = 0x1983_0326;

/// Those that syncfs(2) does not make durable: the kernel hands on what was written, and asks no server to keep it.
const UNSYNCED: [u32; 4] = [FUSE, SMB, SMB2, CIFS];

impl Roots {
    /// Whether all that was written to the first root can be made durable at once.
    pub fn supports_syncfs(&self) -> bool {
        !self.roots.first().is_some_and(|root| is_filesystem(root, &UNSYNCED))
    }
}

impl Roots {
    /// Whether files in the first root have modes of their own: FAT and exFAT give all of them one, and say nothing when another one is set.
    pub fn has_modes(&self) -> bool {
        !self.roots.first().is_some_and(|root| is_filesystem(root, &[FAT, EXFAT]))
    }
}

/// The kind of the file system that a file lies on.
pub fn kind(file: impl AsFd) -> Result<u32, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u32)
}

/// Whether it is one of these; false if the kernel does not tell.
pub fn is_filesystem(file: impl AsFd, kinds: &[u32]) -> bool {
    kind(file).is_ok_and(|kind| kinds.contains(&kind))
}
