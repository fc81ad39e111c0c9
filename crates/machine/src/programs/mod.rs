//! Running programs over time: what they use, and what binds them.
//!
//! A [`ProgramSample`] holds the counters of a process, [`rates`] the difference of two samples,
//! and a [`ProgramWatch`] samples many processes at a bounded cost. [`LoadSample`] observes the
//! nodes.

mod control_group;
mod mappings;
mod node_load;
mod rates;
mod sample;
mod status_file;
#[cfg(test)]
mod tests;
mod watch;

pub use control_group::{
    control_group, group_io, group_limits, is_in_group, parse_io_stat, unit_of, GroupIo, GroupLimits,
};
pub use mappings::{huge_mappings, locked_mappings, movable_ranges, parse_program_memory, ProgramMemory};
pub use node_load::{LoadSample, NodeLoad, Pressure};
pub use rates::{rates, IoRates, ProgramRates};
pub use sample::{
    huge_page_bytes, read_counters, read_details, read_huge_mappings, read_memory, read_movable_ranges,
    read_thread, running_programs, ProgramDetails, ProgramSample, ThreadSample,
};
pub(crate) use status_file::kilobytes;
pub use status_file::{parse_io, parse_status, IoCounters, StatusFacts};
pub use watch::{ObservedProgram, ProgramWatch, WatchOptions};
