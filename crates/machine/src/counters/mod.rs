//! Counters of hardware and of the kernel: their names, codes and files.
//!
//! Each counter has one meaning and several possible sources. A source that cannot count states the
//! reason ([`MissingCounter`]). No value is estimated.

mod codes;
mod core_family;
mod counter;
mod kernel_files;
mod perf_stat;
mod uncore;

pub use codes::{thread_event, EventCode, EVENT_SOURCES, GROUPS};
pub use core_family::CoreFamily;
pub use counter::{
    perf_event_paranoid, Count, Counter, CounterScope, CounterSource, CounterUnit, MissingCounter,
    DOUBTFUL_SHARE,
};
pub use kernel_files::{
    parse_mbm_bytes, parse_numastat, parse_vmstat_numa, FileCount, KernelCounts, NodeCpus,
};
pub use perf_stat::{parse_perf_stat, perf_names, PerfStatCount};
pub use uncore::{uncore_events, UncoreEvent};
