//! Copies from one node to another.

use super::common::{Flow, Pages, Placement, Sampling};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Threads that copy memory between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CopyWorkload {
    /// Source and sink.
    #[serde(flatten)]
    pub flow: Flow,
    /// The threads.
    #[serde(flatten)]
    pub placement: Placement,
    /// The copy loop.
    pub copy_loop: CopyLoop,
    /// Size of each thread's source and of its sink in bytes.
    pub bytes_per_thread: u64,
    /// Page size of the buffers.
    pub pages: Pages,
    /// Sampling and end of the run.
    pub sampling: Sampling,
}

/// A loop that copies memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CopyLoop {
    /// `memcpy` of the C library.
    Memcpy,
    /// 64-byte loads and non-temporal stores (AVX-512).
    Avx512,
    /// 32-byte loads and non-temporal stores (AVX2).
    Avx2,
    /// `stnp` of pairs (aarch64).
    Stnp,
    /// `rep movsb` (x86-64, enhanced).
    RepMovsb,
}

impl CopyLoop {
    /// All loops, in the order of preference.
    pub const ALL: [Self; 5] = [Self::Memcpy, Self::Avx512, Self::Avx2, Self::Stnp, Self::RepMovsb];

    /// Returns the name in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Stnp => "stnp",
            Self::RepMovsb => "rep-movsb",
        }
    }

    /// Returns the bytes on the memory bus for each copied byte: read, written, and for ordinary
    /// stores also read before the write (write-allocate).
    ///
    /// An upper bound for `memcpy` and `rep movsb`, which may use non-temporal stores for long
    /// copies.
    pub fn bus_bytes_per_byte(self) -> u32 {
        match self {
            Self::Avx512 | Self::Avx2 | Self::Stnp => 2,
            Self::Memcpy | Self::RepMovsb => 3,
        }
    }
}

impl fmt::Display for CopyLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
