//! What a thread does to data between files and the link: it packs what it read, and unpacks what it is to write.

use super::pool::{Pool, Slab};
use crate::files::no_buffer;
use numaio_machine::port::{Fault, Operation, Outcome, Pack, Packed, Unpacking};
use rustix::time::{clock_gettime, ClockId};
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A buffer of a thread's own, beside those of its pool: who waits for one of those while it has another one could wait for
/// ever. It is made when the thread first needs it, and so lies near the thread: the kernel puts a page where it is
/// first written from.
#[derive(Debug, Default)]
pub(super) struct ScratchBuffer(OnceCell<Arc<Pool>>);

impl ScratchBuffer {
    /// Whether there is something to pack or to unpack.
    pub fn is_needed_for(operation: &Operation<Slab>) -> bool {
        matches!(operation, Operation::Read { pack: Some(_), .. } | Operation::Write { packed: Some(_), .. })
    }

    /// Carries an operation out by `files`, which knows nothing of packing.
    pub fn run(
        &self,
        operation: Operation<Slab>,
        files: impl FnOnce(Operation<Slab>) -> Outcome<Slab>,
    ) -> Outcome<Slab> {
        match operation {
            Operation::Read { pieces, hash, pack: Some(pack) } => {
                let lengths: Vec<usize> = pieces.iter().map(|piece| piece.length).collect();
                match files(Operation::Read { pieces, hash, pack: None }) {
                    Outcome::Read { results, mut data, .. } => {
                        let read = lengths.iter().zip(&results).filter(|(_, result)| result.is_ok());
                        let packed = self.pack(pack, &mut data, read.map(|(length, _)| length).sum());
                        Outcome::Read { results, data, packed: Some(packed) }
                    }
                    other => other,
                }
            }
            Operation::Write { puts, data: Some(data), hash, packed: Some(packed) } => {
                match self.unpack(&packed, data) {
                    Ok(data) => files(Operation::Write { puts, data: Some(data), hash, packed: None }),
                    Err(fault) => Outcome::Each(puts.iter().map(|_| Err(fault.clone())).collect()),
                }
            }
            other => files(other),
        }
    }

    fn buffer(&self) -> Option<Slab> {
        self.0.get_or_init(|| Pool::new(1)).take()
    }

    /// Packs the first bytes of a buffer.
    fn pack(&self, pack: Pack, data: &mut Slab, length: usize) -> Packed {
        let (began, busy) = (Instant::now(), cpu_time(ClockId::ThreadCPUTime));
        let bytes = self.buffer().and_then(|mut own| {
            let bytes = pack(&data.as_ref()[..length], own.as_mut())?;
            data.as_mut()[..bytes].copy_from_slice(&own.as_ref()[..bytes]);
            Some(bytes)
        });
        let worked = cpu_time(ClockId::ThreadCPUTime).saturating_sub(busy);
        Packed { bytes, took: began.elapsed(), worked }
    }

    /// What the data was; the buffer that it came in is given back.
    fn unpack(&self, packed: &Unpacking, data: Slab) -> Result<Slab, Fault> {
        let mut own = self.buffer().ok_or_else(no_buffer)?;
        packed.run(data.as_ref(), own.as_mut()).map(|()| own)
    }
}

/// CPU time that this thread or this process has used (clock_gettime(2), `CLOCK_THREAD_CPUTIME_ID` and
/// `CLOCK_PROCESS_CPUTIME_ID`).
pub(super) fn cpu_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Roots;
    use numaio_machine::conformance;
    use std::fs;

    #[test]
    fn threads_pack_and_unpack_as_a_port_does() {
        let folder = std::env::temp_dir().join(format!("numaio-packing-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let (roots, pool, own) =
            (Roots::open(&[&folder]).expect("a root"), Pool::new(4), ScratchBuffer::default());
        conformance::packing(conformance::Files {
            run: &mut |operation| own.run(operation, |operation| roots.run(operation, || pool.take())),
            buffer: &|bytes| {
                let mut slab = pool.take().expect("a buffer");
                slab.as_mut()[..bytes.len()].copy_from_slice(bytes);
                slab
            },
        });
        fs::remove_dir_all(&folder).expect("a folder of ours");
    }
}
