//! Bandwidth of a device by node: the one place that all advice asks.
//!
//! The copy model compares paths. A device uses as much of a path as it can carry itself, and
//! shares it with the devices beside it: min(limit, path / sharers) is an upper bound of its
//! bandwidth. I/O measured with the device replaces the bound.

mod expectation;
mod fair_share;
mod limits;
mod method;
mod sharing;
#[cfg(test)]
pub(crate) mod tests;

pub use expectation::{expect_bandwidth, BandwidthEvidence, BandwidthSubject};
pub use limits::{bench_command, device_limit};
pub(crate) use limits::{link_limit, port_limit};
pub use method::TransferMethod;
pub use sharing::{expect_machine, first_difference};
