//! Reads and writes through the page cache.

use crate::files::fault::fault;
use crate::files::identity::changed;
use numaio_mover::port::{Fault, FaultKind};
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::io::{retry_on_intr, Errno};

/// Fills a buffer from an offset; the file has changed if it ends before.
pub fn read_all(file: &OwnedFd, buffer: &mut [u8], mut offset: u64) -> Result<(), Fault> {
    let mut rest = buffer;
    while !rest.is_empty() {
        match retry_on_intr(|| rustix::io::pread(file, &mut *rest, offset)).map_err(fault("read"))? {
            0 => return Err(changed()),
            count => {
                offset += count as u64;
                rest = &mut rest[count..];
            }
        }
    }
    Ok(())
}

/// Writes all bytes at an offset.
pub fn write_all(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    let (mut rest, mut at) = (bytes, offset);
    while !rest.is_empty() {
        let count = retry_on_intr(|| rustix::io::pwrite(file, rest, at)).map_err(fault("write"))?;
        if count == 0 {
            return Err(Fault::new(FaultKind::NoSpace, "cannot write: no bytes accepted"));
        }
        rest = &rest[count..];
        at += count as u64;
    }
    Ok(())
}

/// As [`write_all`], but punches holes for complete pages of zeros (fallocate(2),
/// `FALLOC_FL_PUNCH_HOLE`) where supported.
pub fn write_sparse(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Fault> {
    const PAGE: usize = 4_096;
    let to_page = offset.next_multiple_of(PAGE as u64) - offset;
    let (first, pages) = bytes.split_at(bytes.len().min(to_page as usize));
    write_all(file, first, offset)?;
    let mut at = offset + first.len() as u64;
    // Vectorizes to 16 bytes or more per step; musl's memcmp compares single bytes.
    let is_hole = |page: &[u8]| page.len() == PAGE && page.iter().fold(0, |all, byte| all | byte) == 0;
    let holes: Vec<bool> = pages.chunks(PAGE).map(is_hole).collect();
    let mut rest = pages;
    for run in holes.chunk_by(|one, other| one == other) {
        let (some, others) = rest.split_at((run.len() * PAGE).min(rest.len()));
        if !run[0] || !punch_hole(file, at, some.len() as u64)? {
            write_all(file, some, at)?;
        }
        at += some.len() as u64;
        rest = others;
    }
    Ok(())
}

/// Punches a hole; false where the file system does not support it.
pub fn punch_hole(file: &OwnedFd, offset: u64, length: u64) -> Result<bool, Fault> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, length)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(fault("punch hole")(errno)),
    }
}
