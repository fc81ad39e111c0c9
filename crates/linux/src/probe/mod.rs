//! Memory workloads on this machine.

mod chain;
mod copy;
pub(crate) mod curve;
mod latency;
mod passes;
mod repetitions;
mod stream;
pub(crate) mod team;
pub(crate) mod window;

pub use copy::copy;
pub use latency::latency;
pub use stream::stream;

use numaio_machine::probe::ProbeError;
use std::time::Instant;

/// Returns the error for an invalid workload.
pub(crate) fn refused<T>(what: &str, why: impl Into<String>) -> Result<T, ProbeError> {
    Err(ProbeError::Refused { what: what.to_owned(), why: why.into() })
}

/// Returns the nanoseconds elapsed since a moment.
pub(crate) fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
