//! Hash functions for data blocks and complete files.

use crate::port::{Digest, Hash, RunningHash};

/// A hash function for parts of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// No hashing.
    None,
    /// XXH3 with 128 bits and seed 0, in canonical (big-endian) form: detects damage, not
    /// tampering.
    Xxh3,
    /// BLAKE3 with 256 bits and no key.
    Blake3,
}

impl HashKind {
    /// All hash functions, ordered by code.
    pub const ALL: [Self; 3] = [Self::None, Self::Xxh3, Self::Blake3];

    /// Returns the number of bytes of a hash.
    pub fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Xxh3 => 16,
            Self::Blake3 => 32,
        }
    }

    /// Returns the code used in the protocol.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the hash function.
    pub fn function(self) -> Hash {
        match self {
            Self::None => |_| Digest::default(),
            Self::Xxh3 => xxh3,
            Self::Blake3 => |bytes| Digest(*blake3::hash(bytes).as_bytes()),
        }
    }

    /// Returns an incremental hash with the same result as [`HashKind::function`].
    pub(crate) fn incremental(self) -> Box<dyn RunningHash> {
        match self {
            Self::None => Box::new(NoHash),
            Self::Xxh3 => Box::new(Xxh3Hasher(twox_hash::xxhash3_128::Hasher::new())),
            Self::Blake3 => Box::<FileHasher>::default(),
        }
    }
}

#[derive(Debug)]
struct NoHash;

impl RunningHash for NoHash {
    fn update(&mut self, _: &[u8]) {}

    fn digest(&self) -> Digest {
        Digest::default()
    }
}

struct Xxh3Hasher(twox_hash::xxhash3_128::Hasher);

impl std::fmt::Debug for Xxh3Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Xxh3Hasher")
    }
}

impl RunningHash for Xxh3Hasher {
    fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn digest(&self) -> Digest {
        xxh3_digest(self.0.finish_128())
    }
}

/// Incremental BLAKE3 with 256 bits over a complete file; the result equals that of `b3sum`.
#[derive(Debug, Default)]
pub struct FileHasher(blake3::Hasher);

impl RunningHash for FileHasher {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

fn xxh3(bytes: &[u8]) -> Digest {
    xxh3_digest(twox_hash::XxHash3_128::oneshot(bytes))
}

fn xxh3_digest(hash: u128) -> Digest {
    let mut digest = Digest::default();
    digest.0[..16].copy_from_slice(&hash.to_be_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from reference implementations: `printf hello | xxhsum -H2`, and BLAKE3's test
    /// vectors.
    #[test]
    fn hashes_match_reference_implementations() {
        let xxh3 = HashKind::Xxh3.function()(b"hello");
        assert_eq!(xxh3.0[..16], 0xb5e9_c1ad_071b_3e7f_c779_cfaa_5e52_3818_u128.to_be_bytes());
        assert_eq!(xxh3.0[16..], [0; 16]);
        let blake3 = HashKind::Blake3.function()(b"");
        assert_eq!(blake3.0[..8], 0xaf13_49b9_f5f9_a1a6_u64.to_be_bytes());
        assert_eq!(HashKind::None.function()(b"hello"), Digest::default());
        for kind in HashKind::ALL {
            let mut incremental = kind.incremental();
            [&b"hel"[..], b"", b"lo"].into_iter().for_each(|bytes| incremental.update(bytes));
            assert_eq!(incremental.digest(), kind.function()(b"hello"), "{kind:?}");
        }
    }
}
