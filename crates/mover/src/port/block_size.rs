//! Sizes of blocks.

use std::fmt;

/// Default size of a block in bytes; see [`BlockSize`].
pub const BLOCK: usize = 1 << 20;

/// The size of a block in bytes: a power of two from [`BlockSize::MIN`] to [`BlockSize::MAX`].
///
/// A block is the unit in which large files are read, sent, hashed and resumed, and the size of a
/// port's buffers. Both sides of a transfer use the same one (Li's dissertation, Stony Brook 2015,
/// section 6.2: the sink answers it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockSize(u32);

/// A number of bytes that is not a [`BlockSize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a power of two from 64 KiB to 16 MiB")]
pub struct BlockSizeError;

impl BlockSize {
    /// The minimum in bytes: smaller blocks cost more for their messages than for their data.
    pub const MIN: usize = 64 << 10;
    /// The maximum in bytes.
    pub const MAX: usize = 16 << 20;

    /// Checks a number of bytes.
    ///
    /// # Errors
    /// [`BlockSizeError`] if it is not a power of two from [`BlockSize::MIN`] to
    /// [`BlockSize::MAX`].
    pub fn new(bytes: u64) -> Result<Self, BlockSizeError> {
        let is_valid = bytes.is_power_of_two() && (Self::MIN as u64..=Self::MAX as u64).contains(&bytes);
        u32::try_from(bytes).ok().filter(|_| is_valid).map(Self).ok_or(BlockSizeError)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Returns the size in bytes, as file offsets are counted.
    pub const fn length(self) -> u64 {
        self.0 as u64
    }
}

impl Default for BlockSize {
    /// Returns the size of transfers without another choice.
    fn default() -> Self {
        Self(BLOCK as u32)
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{} KiB", bytes >> 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_within_the_limits_are_sizes() {
        let sizes = (0..64).map(|bit| 1 << bit).filter(|&bytes| BlockSize::new(bytes).is_ok());
        assert_eq!(sizes.collect::<Vec<u64>>(), (16..=24).map(|bit| 1 << bit).collect::<Vec<u64>>());
        for bytes in [0, 1, (64 << 10) - 1, 96 << 10, (1 << 20) + 1, (16 << 20) + 1, u64::MAX] {
            assert_eq!(BlockSize::new(bytes), Err(BlockSizeError), "{bytes}");
        }
        assert_eq!(BlockSize::default().to_string(), "1 MiB");
        assert_eq!(BlockSize::new(65_536).map(|size| size.to_string()), Ok("64 KiB".to_owned()));
    }
}
