//! Verification that an open file is still the one that was found.

use super::fault::fault;
use super::file_stat::file_stat;
use super::filesystem::{is_filesystem, CIFS, EXFAT, FAT, FUSE, P9, SMB, SMB2};
use numaio_mover::port::{Fault, FaultKind, FileKind, Identity};
use rustix::fd::{BorrowedFd, OwnedFd};

/// File systems without persistent inode numbers.
const RENUMBERED: [u32; 7] = [FUSE, FAT, EXFAT, CIFS, SMB2, SMB, P9];

/// Verifies that a file is unchanged.
pub fn same(file: &OwnedFd, identity: &Identity) -> Result<(), Fault> {
    let metadata = file_stat(&rustix::fs::fstat(file).map_err(fault("stat"))?);
    let renumbered = Identity { inode: metadata.inode, ..*identity };
    let is_same =
        metadata.identity() == renumbered && (metadata.inode == identity.inode || is_renumbered(file));
    match metadata.kind == FileKind::File && is_same {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// Returns whether the file system assigns new inode numbers after dropping its cache.
pub fn is_renumbered(file: &OwnedFd) -> bool {
    is_filesystem(file, &RENUMBERED)
}

/// Returns whether the file system of a directory assigns new inode numbers.
pub fn is_renumbered_in(directory: BorrowedFd<'_>) -> bool {
    is_filesystem(directory, &RENUMBERED)
}

/// Returns the fault of a file that changed since it was found.
pub fn changed() -> Fault {
    Fault::new(FaultKind::Changed, "file changed during the transfer")
}
