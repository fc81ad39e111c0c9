//! I/O streams between memory and devices.

pub mod tcp;

mod claim;
mod disk;
mod disk_facts;
mod slices;
mod splitmix;
pub(crate) mod streams;

pub use claim::{Claim, ClaimError};
pub(crate) use disk::run as disk;
pub use disk::{best_method, ring};
pub use disk_facts::{device_number, disk_facts, is_memory, DiskFacts};

use crate::Root;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::IoWorkload;

/// Returns the bytes that this process may lock in memory and register with io_uring.
pub fn lockable_bytes() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if rustix::process::geteuid().is_root() {
        u64::MAX
    } else {
        limit.unwrap_or(u64::MAX)
    }
}

/// Runs streams against a null device that completes every request immediately.
pub(crate) fn null(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
) -> Result<IoOutcome, ProbeError> {
    streams::check_limits(workload, 1)?;
    let bytes = workload.block_bytes.saturating_mul(workload.depth.into());
    let workers = streams::workers(workload, 1);
    streams::run(root, limit_bytes, workload, &workers, |_, _| Ok((streams::NullQueue { bytes }, None)))
}
