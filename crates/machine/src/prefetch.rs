//! Control of hardware prefetchers by a model-specific register of each CPU.

use crate::ids::CpuId;
use crate::sysfs::{Sysfs, SysfsExt};

/// The register that disables prefetchers of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchRegister {
    /// Its number.
    pub number: u32,
    /// Its bits that disable a prefetcher. No other bit is changed.
    pub bits: u64,
}

/// Intel `MISC_FEATURE_CONTROL`: L2 streamer, L2 adjacent line, L1 streamer and L1 IP prefetcher
/// (Intel, "Disclosure of H/W prefetcher control on some Intel processors", 2014).
const INTEL: PrefetchRegister = PrefetchRegister { number: 0x1a4, bits: 0b1111 };

/// AMD `PrefetchControl`: L1 stream, L1 stride, L1 region, L2 stream and up/down prefetcher (AMD
/// PPR for Family 19h Model 11h, MSRC000_0108).
const AMD: PrefetchRegister = PrefetchRegister { number: 0xc000_0108, bits: 0b10_1111 };

impl PrefetchRegister {
    /// Returns the register of this machine's CPUs; `None` if no document describes one.
    ///
    /// A CPU that lacks it fails to read it.
    pub fn find(root: &dyn Sysfs) -> Option<Self> {
        Self::parse(&root.optional("/proc/cpuinfo")?)
    }

    /// Finds the register by the text of /proc/cpuinfo.
    fn parse(cpuinfo: &str) -> Option<Self> {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let vendor = pairs.find(|(key, _)| key.trim() == "vendor_id")?.1.trim();
        match vendor {
            "GenuineIntel" => Some(INTEL),
            "AuthenticAMD" => Some(AMD),
            _ => None,
        }
    }
}

/// Returns the file of a CPU's registers; the offset is the number of a register (msr(4)).
pub fn registers_path(cpu: CpuId) -> String {
    format!("/dev/cpu/{cpu}/msr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_by_vendor() {
        let of = |vendor: &str| PrefetchRegister::parse(&format!("processor: 0\nvendor_id\t: {vendor}\n"));
        assert_eq!(of("GenuineIntel"), Some(INTEL));
        assert_eq!(of("AuthenticAMD").map(|register| register.bits & 0b1_0000), Some(0), "bit 4 is reserved");
        assert_eq!((of("HygonGenuine"), PrefetchRegister::parse("")), (None, None));
    }
}
