//! Reads of a register of a device: memory-mapped I/O.

use crate::devices::MmioRegister;
use crate::ids::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Reads of a register by one CPU, each of 4 bytes and after the end of the previous one (Moreaud
/// and Goglin, 2007, Table 1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioWorkload {
    /// The register.
    #[serde(flatten)]
    pub register: MmioRegister,
    /// The CPU that reads.
    pub cpu: CpuId,
    /// Number of reads of a slice, after a warm-up of one slice.
    pub reads: u32,
    /// Number of slices; each is a sample.
    pub slices: u32,
}

impl MmioWorkload {
    /// Maximum number of reads of a run, whose times are kept in memory.
    pub const MAX_READS: u64 = 10_000_000;
}

impl fmt::Display for MmioWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = u64::from(self.reads) * u64::from(self.slices);
        write!(f, "{total} reads of {} from CPU {}", self.register, self.cpu)
    }
}
