//! Monitors of accesses, and what they observe.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A monitor of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AccessMonitorKind {
    /// DAMON, by samples of address ranges.
    Damon,
    /// Idle page tracking, by page.
    IdlePages,
}

impl fmt::Display for AccessMonitorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damon => "DAMON",
            Self::IdlePages => "idle page tracking",
        })
    }
}

/// Addresses of a process that a monitor observes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MonitoredProcess {
    /// Process id.
    pub pid: u32,
    /// The addresses, ascending and without overlaps.
    pub ranges: Vec<MonitoredRange>,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MonitoredRange {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}
