//! Running workloads on this machine.

pub mod copy;
mod curve;
pub mod latency;
mod repetitions;
pub mod stream;
mod team;
mod window;
mod work;

use std::time::Instant;

/// Nanoseconds since a moment.
fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
