//! Streams between memory and devices.

pub mod tcp;

mod claim;
mod disk;
mod random;
mod slices;
pub(crate) mod streams;

pub use claim::{Claim, ClaimError};
pub use disk::{best_method, facts, Facts};
pub(crate) use disk::{device_number, is_memory, ring, run as disk};

use crate::Root;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::IoWorkload;

/// Bytes that this process may lock in memory, and so register with io_uring.
pub fn lockable_bytes() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if rustix::process::geteuid().is_root() {
        u64::MAX
    } else {
        limit.unwrap_or(u64::MAX)
    }
}

/// Runs streams of which every request is done as soon as it is made.
pub(crate) fn null(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
) -> Result<IoOutcome, ProbeError> {
    streams::within_limits(workload, 1)?;
    let bytes = workload.block_bytes.saturating_mul(workload.depth.into());
    let lanes = streams::lanes(workload, 1);
    streams::run(root, limit_bytes, workload, &lanes, |_, _| Ok((streams::Nothing { bytes }, None)))
}
