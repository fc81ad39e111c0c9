//! Counters, and counts with their sources.

use crate::ids::NodeId;
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A counted quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Counter {
    /// CPU cycles.
    Cycles,
    /// Retired instructions.
    Instructions,
    /// Cycles in which the core waited for a resource or for memory.
    StallCycles,
    /// Loads that reached the last-level cache.
    LlcLoads,
    /// Loads that missed the last-level cache.
    LlcLoadMisses,
    /// Loads that memory of any node served.
    NodeLoads,
    /// Loads that memory of another node served.
    NodeLoadMisses,
    /// Stores to memory of any node.
    NodeStores,
    /// Stores to memory of another node.
    NodeStoreMisses,
    /// Loads that missed the last-level cache and were served by memory of the own node.
    LocalDramLoads,
    /// Loads that missed the last-level cache and were served by memory of another node.
    RemoteDramLoads,
    /// Loads that missed the last-level cache and were served by a cache of another node.
    RemoteCacheLoads,
    /// Responses of the cores to snoops of others; on Intel servers before Skylake, reads of the
    /// cores that drew a response.
    SnoopResponses,
    /// Cache lines that hardware prefetchers requested.
    Prefetches,
    /// Ticks of the time stamp counter while the threads ran.
    TscTicks,
    /// Page faults.
    PageFaults,
    /// Migrations of threads between CPUs.
    CpuMigrations,
    /// Context switches.
    ContextSwitches,
    /// Bytes that memory controllers read.
    MemoryReadBytes,
    /// Bytes that memory controllers wrote.
    MemoryWriteBytes,
    /// Bytes of data that were sent over links between packages.
    LinkBytes,
    /// Bytes between the caches of a node and its own memory (resctrl).
    MbmLocalBytes,
    /// Bytes between the caches of a node and memory of any node (resctrl).
    MbmTotalBytes,
    /// Pages allocated on the requested node (numastat).
    NumaHit,
    /// Pages allocated on a node because the requested one was full.
    NumaMiss,
    /// Pages requested on a node and allocated elsewhere.
    NumaForeign,
    /// Pages of a node allocated by threads of the node.
    NumaLocal,
    /// Pages of a node allocated by threads of other nodes.
    NumaOther,
    /// Page faults of automatic NUMA balancing.
    HintFaults,
    /// Pages that automatic NUMA balancing migrated.
    PagesMigrated,
}

/// The scope of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterScope {
    /// The counted threads.
    Threads,
    /// Everything that runs on the machine, by node.
    Node,
    /// Everything that runs on the machine.
    Machine,
}

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterUnit {
    /// Events.
    Events,
    /// Bytes.
    Bytes,
}

impl Counter {
    /// All counters: of threads, then of nodes, then of the machine.
    pub const ALL: [Self; 30] = [
        Self::Cycles,
        Self::Instructions,
        Self::StallCycles,
        Self::LlcLoads,
        Self::LlcLoadMisses,
        Self::NodeLoads,
        Self::NodeLoadMisses,
        Self::NodeStores,
        Self::NodeStoreMisses,
        Self::LocalDramLoads,
        Self::RemoteDramLoads,
        Self::RemoteCacheLoads,
        Self::SnoopResponses,
        Self::Prefetches,
        Self::TscTicks,
        Self::PageFaults,
        Self::CpuMigrations,
        Self::ContextSwitches,
        Self::MemoryReadBytes,
        Self::MemoryWriteBytes,
        Self::LinkBytes,
        Self::MbmLocalBytes,
        Self::MbmTotalBytes,
        Self::NumaHit,
        Self::NumaMiss,
        Self::NumaForeign,
        Self::NumaLocal,
        Self::NumaOther,
        Self::HintFaults,
        Self::PagesMigrated,
    ];

    /// Returns the name in options, documents and displays.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::StallCycles => "stall-cycles",
            Self::LlcLoads => "llc-loads",
            Self::LlcLoadMisses => "llc-load-misses",
            Self::NodeLoads => "node-loads",
            Self::NodeLoadMisses => "node-load-misses",
            Self::NodeStores => "node-stores",
            Self::NodeStoreMisses => "node-store-misses",
            Self::LocalDramLoads => "local-dram-loads",
            Self::RemoteDramLoads => "remote-dram-loads",
            Self::RemoteCacheLoads => "remote-cache-loads",
            Self::SnoopResponses => "snoop-responses",
            Self::Prefetches => "prefetches",
            Self::TscTicks => "tsc-ticks",
            Self::PageFaults => "page-faults",
            Self::CpuMigrations => "cpu-migrations",
            Self::ContextSwitches => "context-switches",
            Self::MemoryReadBytes => "memory-read-bytes",
            Self::MemoryWriteBytes => "memory-write-bytes",
            Self::LinkBytes => "link-bytes",
            Self::MbmLocalBytes => "mbm-local-bytes",
            Self::MbmTotalBytes => "mbm-total-bytes",
            Self::NumaHit => "numa-hit",
            Self::NumaMiss => "numa-miss",
            Self::NumaForeign => "numa-foreign",
            Self::NumaLocal => "numa-local",
            Self::NumaOther => "numa-other",
            Self::HintFaults => "hint-faults",
            Self::PagesMigrated => "pages-migrated",
        }
    }

    /// Returns the scope of the counter.
    pub fn scope(self) -> CounterScope {
        match self {
            Self::HintFaults | Self::PagesMigrated => CounterScope::Machine,
            counter if counter >= Self::MemoryReadBytes => CounterScope::Node,
            _ => CounterScope::Threads,
        }
    }

    /// Returns the unit of the values.
    pub fn unit(self) -> CounterUnit {
        match (Self::MemoryReadBytes..=Self::MbmTotalBytes).contains(&self) {
            true => CounterUnit::Bytes,
            false => CounterUnit::Events,
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The source of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CounterSource {
    /// perf_event_open(2), for the counted threads.
    PerfEvent,
    /// `perf stat`, by a name of the kernel's event tables.
    PerfStat,
    /// perf_event_open(2), for a PMU outside of the cores.
    Uncore,
    /// Memory bandwidth monitoring (Documentation/filesystems/resctrl.rst).
    Resctrl,
    /// `numastat` of each node (Documentation/admin-guide/numastat.rst).
    Numastat,
    /// /proc/vmstat.
    Vmstat,
    /// A simulated machine.
    Simulated,
}

impl CounterSource {
    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfEvent => "perf_event_open",
            Self::PerfStat => "perf stat",
            Self::Uncore => "uncore PMU",
            Self::Resctrl => "resctrl",
            Self::Numastat => "numastat",
            Self::Vmstat => "vmstat",
            Self::Simulated => "simulated",
        }
    }
}

/// A raw count, as the kernel returned it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Count {
    /// The counter.
    pub counter: Counter,
    /// The node; `None` for counters of threads and of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The source.
    pub source: CounterSource,
    /// The event or file, as in `RESOURCE_STALLS.ANY (r01a2)`.
    pub event: String,
    /// The count without scaling.
    pub raw: u64,
    /// Nanoseconds for which the event was enabled, summed over threads.
    pub enabled_ns: u64,
    /// Nanoseconds for which it was counted: less if the kernel multiplexed counters.
    pub running_ns: u64,
}

/// Share of the time below which a multiplexed count is marked.
pub const DOUBTFUL_SHARE: f64 = 0.5;

impl Count {
    /// Returns the share of the time in which the event was counted, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self.enabled_ns {
            0 => 1.0,
            enabled => (self.running_ns as f64 / enabled as f64).min(1.0),
        }
    }

    /// Returns the count scaled to the complete time (perf_event_open(2),
    /// `PERF_FORMAT_TOTAL_TIME_*`); `None` if the event was never counted.
    pub fn value(&self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            (0, _) => Some(self.raw as f64),
            (_, 0) => None,
            _ => Some(self.raw as f64 / self.share()),
        }
    }
}

/// A counter without a value, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MissingCounter {
    /// The counter.
    pub counter: Counter,
    /// The source that was tried.
    pub source: CounterSource,
    /// Why it has no value.
    pub reason: String,
}

/// Returns the value of `kernel.perf_event_paranoid`
/// (Documentation/admin-guide/sysctl/kernel.rst); `None` if the kernel lacks perf events.
pub fn perf_event_paranoid(root: &dyn Sysfs) -> Option<i32> {
    root.value("/proc/sys/kernel/perf_event_paranoid").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_distinct_names_that_documents_use() {
        let mut names: Vec<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        for counter in Counter::ALL {
            let json = serde_json::to_string(&counter).expect("JSON");
            assert_eq!(json, format!("\"{}\"", counter.name()));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
        assert!(Counter::ALL.is_sorted());
    }

    #[test]
    fn multiplexed_counts_are_scaled() {
        let count = |raw, enabled_ns, running_ns| Count {
            counter: Counter::Cycles,
            node: None,
            source: CounterSource::PerfEvent,
            event: String::new(),
            raw,
            enabled_ns,
            running_ns,
        };
        assert_eq!((count(100, 400, 100).value(), count(100, 400, 100).share()), (Some(400.0), 0.25));
        assert_eq!((count(7, 0, 0).value(), count(7, 0, 0).share()), (Some(7.0), 1.0));
        assert_eq!(count(0, 400, 0).value(), None, "an event that was never counted");
        assert_eq!(count(9, 100, 200).value(), Some(9.0), "clocks that differ");
    }
}
