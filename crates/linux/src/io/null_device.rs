//! Null device: it completes every request immediately.

use super::streams::{self, RequestQueue};
use crate::Root;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::IoWorkload;

/// Queue of the null device: requests complete immediately.
struct NullQueue {
    /// Bytes of a full queue.
    bytes: u64,
}

impl RequestQueue for NullQueue {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        Ok(std::hint::black_box(self.bytes))
    }
}

/// Runs streams against the null device.
pub fn run(root: &Root, limit_bytes: Option<u64>, workload: &IoWorkload) -> Result<IoOutcome, ProbeError> {
    streams::check_limits(workload, 1)?;
    let bytes = workload.block_bytes.saturating_mul(workload.depth.into());
    let workers = streams::workers(workload, 1);
    streams::run(root, limit_bytes, workload, &workers, |_, _| Ok((NullQueue { bytes }, None)))
}
