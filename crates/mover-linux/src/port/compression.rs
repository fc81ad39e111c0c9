//! Compression of data between files and the link: after reads and before writes.

use super::pool::{Pool, Slab};
use crate::files::no_buffer;
use numaio_mover::port::{
    BlockSize, CompressFn, CompressionResult, Decompression, Fault, Operation, Outcome,
};
use rustix::time::{clock_gettime, ClockId};
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A private buffer of a thread, in addition to those of its pool: a thread that waits for a pool
/// buffer while holding one could deadlock. It is allocated at first use, and so lies on the
/// thread's node (first touch).
#[derive(Debug, Default)]
pub(super) struct ScratchBuffer(OnceCell<Arc<Pool>>);

impl ScratchBuffer {
    /// Returns whether an operation compresses or decompresses data.
    pub fn is_needed_for(operation: &Operation<Slab>) -> bool {
        matches!(operation, Operation::Read { pack: Some(_), .. } | Operation::Write { packed: Some(_), .. })
    }

    /// Executes an operation by `files`, which does not compress.
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
                    Err(fault) => Outcome::Results(puts.iter().map(|_| Err(fault.clone())).collect()),
                }
            }
            other => files(other),
        }
    }

    /// Returns the buffer; all calls need the same size.
    fn buffer(&self, block: BlockSize) -> Option<Slab> {
        self.0.get_or_init(|| Pool::of_blocks(1, block)).take()
    }

    /// Compresses the first bytes of a buffer in place.
    fn pack(&self, pack: CompressFn, data: &mut Slab, length: usize) -> CompressionResult {
        let (began, busy) = (Instant::now(), cpu_time(ClockId::ThreadCPUTime));
        let bytes = self.buffer(data.block()).and_then(|mut own| {
            let bytes = pack(&data.as_ref()[..length], own.as_mut())?;
            data.as_mut()[..bytes].copy_from_slice(&own.as_ref()[..bytes]);
            Some(bytes)
        });
        let worked = cpu_time(ClockId::ThreadCPUTime).saturating_sub(busy);
        CompressionResult { bytes, took: began.elapsed(), worked }
    }

    /// Decompresses data into the private buffer, and returns the received buffer to its pool.
    fn unpack(&self, packed: &Decompression, data: Slab) -> Result<Slab, Fault> {
        let mut own = self.buffer(data.block()).ok_or_else(no_buffer)?;
        packed.run(data.as_ref(), own.as_mut()).map(|()| own)
    }
}

/// Returns the CPU time of this thread or process (clock_gettime(2), `CLOCK_THREAD_CPUTIME_ID` and
/// `CLOCK_PROCESS_CPUTIME_ID`).
pub(super) fn cpu_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Roots;
    use numaio_mover::conformance;
    use std::fs;

    #[test]
    fn compression_conforms_to_the_port() {
        let folder = std::env::temp_dir().join(format!("numaio-packing-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let (roots, pool, own) =
            (Roots::open(&[&folder]).expect("a root"), Pool::new(4), ScratchBuffer::default());
        conformance::compression(conformance::Files {
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
