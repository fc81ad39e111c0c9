//! The hash of all that a file holds.

use super::beneath::Beneath;
use super::fault::fault;
use super::look::seen;
use super::read::{changed, open, same};
use numaio_machine::port::{Fault, FileKind, Summing};
use rustix::io::retry_on_intr;

/// Bytes of one read: small enough for the second level of caches.
const ROOM: usize = 256 << 10;

/// Reads on, as far as it may.
pub fn sum(beneath: &mut Beneath<'_>, mut summing: Summing) -> Result<Summing, Fault> {
    let file = open(beneath, &summing.at)?;
    let found = seen(&rustix::fs::fstat(&file).map_err(fault("look at it"))?);
    if found.kind != FileKind::File {
        return Err(changed());
    }
    let mut room = vec![0; ROOM];
    let mut left = summing.most;
    while left > 0 && !summing.ended {
        let length = left.min(ROOM as u64) as usize;
        let read = retry_on_intr(|| rustix::io::pread(&file, &mut room[..length], summing.offset));
        let count = read.map_err(fault("read it"))?;
        summing.running.update(&room[..count]);
        summing.offset += count as u64;
        left -= count as u64;
        summing.ended = count == 0;
    }
    summing.identity.iter().try_for_each(|identity| same(&file, identity))?;
    Ok(summing)
}
