//! Compression of data in transit.

use super::fault::{Fault, FaultKind};
use std::time::Duration;

/// Compresses bytes into a buffer; returns the compressed size, or `None` if it does not fit or
/// pay.
pub type CompressFn = fn(&[u8], &mut [u8]) -> Option<usize>;

/// Decompresses untrusted bytes so that they exactly fill a buffer; returns the reason on failure.
pub type DecompressFn = fn(&[u8], &mut [u8]) -> Result<(), String>;

/// The result of an attempt to compress data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionResult {
    /// Compressed size, with the data in the buffer; `None` if the buffer holds the original data.
    pub bytes: Option<usize>,
    /// Elapsed time, also if compression did not pay.
    pub took: Duration,
    /// CPU time; less than `took` if the CPU ran other work.
    pub worked: Duration,
}

/// Parameters for decompressing a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Decompression {
    /// Compressed size in bytes.
    pub bytes: usize,
    /// Original size in bytes, at most one block.
    pub plain: usize,
    /// Function that decompresses it.
    pub with: DecompressFn,
}

impl Decompression {
    /// Decompresses the beginning of one buffer to the beginning of another.
    ///
    /// # Errors
    /// [`FaultKind::Mismatch`] if the data is malformed or has another size than declared.
    pub fn run(&self, packed: &[u8], plain: &mut [u8]) -> Result<(), Fault> {
        let mismatch = |why: &str| {
            let text = format_args!("the peer sent compressed data that cannot be decompressed: {why}");
            Fault::new(FaultKind::Mismatch, text)
        };
        match (packed.get(..self.bytes), plain.get_mut(..self.plain)) {
            (Some(packed), Some(plain)) => (self.with)(packed, plain).map_err(|why| mismatch(&why)),
            _ => Err(mismatch("it exceeds the block size")),
        }
    }
}
