//! Running streams of copies, all at once.

use super::copies::CopyQueue;
use super::driver::Driver;
use super::objects::Context;
use crate::io::streams;
use crate::probe::refused;
use crate::Root;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::IoWorkload;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Copies in flight of one stream, at most: each has an event.
const MAX_DEPTH: u32 = 1024;

/// Moves data between memory and a GPU. `limit_bytes` is what the control group still allows.
///
/// # Errors
/// [`ProbeError::Refused`] if there is no such GPU or the driver refuses; an error that comes while time is taken ends
/// the run early, and is told by its outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    device: u32,
) -> Result<IoOutcome, ProbeError> {
    let driver = super::driver()?;
    retain_context(driver, device)?;
    run_with_driver(driver, root, limit_bytes, workload, device)
}

/// Keeps a device's context until this process ends: to make one anew takes about as long as a visit.
fn retain_context(driver: &Driver, device: u32) -> Result<(), ProbeError> {
    static RETAINED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let mut kept = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains(&device) {
        std::mem::forget(Context::of(driver, device)?);
        kept.insert(device);
    }
    Ok(())
}

/// As [`run`], by a driver.
pub fn run_with_driver(
    driver: &Driver,
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    device: u32,
) -> Result<IoOutcome, ProbeError> {
    streams::check_limits(workload, 1)?;
    if workload.depth > MAX_DEPTH {
        return refused("GPU", format!("{} copies in flight; {MAX_DEPTH} can be had", workload.depth));
    }
    let context = Context::of(driver, device)?;
    let workers = streams::workers(workload, 1);
    streams::run(root, limit_bytes, workload, &workers, |worker, buffer| {
        context.enter()?;
        // SAFETY: the buffer is this lane's alone and outlives its queue.
        let copies = unsafe { CopyQueue::new(&context, buffer, workload.depth as usize, worker.direction) }?;
        Ok((copies, None))
    })
}
