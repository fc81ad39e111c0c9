//! Hashes of blocks.

/// The hash of a block; shorter hashes are padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub [u8; 32]);

/// Hash function for blocks; the port runs it while the data is in the CPU cache.
pub type Hash = fn(&[u8]) -> Digest;
