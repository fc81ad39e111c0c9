//! Checksum of a complete file.

use super::read::open;
use crate::files::fault::fault;
use crate::files::file_stat::file_stat;
use crate::files::identity::{changed, same};
use crate::files::path::Resolver;
use numaio_mover::port::{ContentHash, Fault, FileKind};
use rustix::io::retry_on_intr;

/// Bytes per read, small enough for the L2 cache.
const BUFFER_BYTES: usize = 256 << 10;

/// Continues a checksum as far as the request allows.
pub fn checksum(resolver: &mut Resolver<'_>, mut summing: ContentHash) -> Result<ContentHash, Fault> {
    let file = open(resolver, &summing.at)?;
    let found = file_stat(&rustix::fs::fstat(&file).map_err(fault("stat"))?);
    if found.kind != FileKind::File {
        return Err(changed());
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = summing.most;
    while left > 0 && !summing.ended {
        let length = left.min(BUFFER_BYTES as u64) as usize;
        let read = retry_on_intr(|| rustix::io::pread(&file, &mut buffer[..length], summing.offset));
        let count = read.map_err(fault("read"))?;
        summing.running.update(&buffer[..count]);
        summing.offset += count as u64;
        left -= count as u64;
        summing.ended = count == 0;
    }
    summing.identity.iter().try_for_each(|identity| same(&file, identity))?;
    Ok(summing)
}
