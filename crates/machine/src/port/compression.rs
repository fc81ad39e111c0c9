//! Data that is made smaller for its way to the other side, and there what it was.

use super::{Fault, FaultKind};
use std::time::Duration;

/// Packs bytes into a buffer. Gives how many they became; none if they do not fit there, or it is not worth it.
pub type CompressFn = fn(&[u8], &mut [u8]) -> Option<usize>;

/// Unpacks bytes that anybody may have sent, so that they fill a buffer exactly; else words why they cannot.
pub type DecompressFn = fn(&[u8], &mut [u8]) -> Result<(), String>;

/// What came of data that was to be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionResult {
    /// How many bytes it became, which stand in the buffer in its place; none if it stands there as it was read.
    pub bytes: Option<usize>,
    /// How long that took, also if it came to nothing.
    pub took: Duration,
    /// CPU time of it: less than it took if the CPU had other things to do.
    pub worked: Duration,
}

/// Data that is packed.
#[derive(Debug, Clone, Copy)]
pub struct Decompression {
    /// How many bytes it is now.
    pub bytes: usize,
    /// How many bytes it was, [`super::BLOCK`] at most.
    pub plain: usize,
    /// How it becomes that again.
    pub with: DecompressFn,
}

impl Decompression {
    /// Unpacks what a buffer begins with to the beginning of another one.
    ///
    /// # Errors
    /// [`FaultKind::Mismatch`] if it is not what the other side said it is.
    pub fn run(&self, packed: &[u8], plain: &mut [u8]) -> Result<(), Fault> {
        let refuse = |why: &str| {
            let text = format_args!("the other side sent packed data that cannot be unpacked: {why}");
            Fault::new(FaultKind::Mismatch, text)
        };
        match (packed.get(..self.bytes), plain.get_mut(..self.plain)) {
            (Some(packed), Some(plain)) => (self.with)(packed, plain).map_err(|why| refuse(&why)),
            _ => Err(refuse("it is longer than a block")),
        }
    }
}
