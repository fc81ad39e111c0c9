//! What a machine was doing while it was measured.

use serde::{Deserialize, Serialize};

/// Settings and load that change what a measurement means. What the kernel does not tell is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Automatic NUMA balancing: 0 off, 1 on, 2 memory tiering, 3 both.
    pub numa_balancing: Option<u32>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Frequency governors in use.
    pub governors: Vec<String>,
    /// Whether turbo frequencies are allowed.
    pub turbo: Option<bool>,
    /// Whether the kernel runs under a hypervisor.
    pub virtual_machine: bool,
    /// Whether an interrupt balancer daemon runs.
    pub irqbalance: Option<bool>,
    /// Processor time used so far, from /proc/stat and this process's own.
    pub processor_time: Option<ProcessorTime>,
    /// Frequencies of the CPUs now, lowest and highest, in MHz.
    pub frequency_mhz: Option<(u32, u32)>,
}

/// Processor time since boot, in clock ticks, summed over CPUs
/// (`Documentation/filesystems/proc.rst`, 1.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// Busy with anything: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Taken by the hypervisor for others.
    pub stolen: u64,
    /// Busy, stolen, idle and waiting.
    pub total: u64,
    /// This process's own part of `busy` (/proc/self/stat, utime and stime).
    pub own: u64,
}

/// Reads the conditions now.
pub fn read(_root: &dyn crate::sysfs::Sysfs) -> Conditions {
    Conditions::default()
}
