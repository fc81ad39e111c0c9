//! Concurrent streams of copies between memory and a GPU.

use super::copies::CopyQueue;
use super::driver::Driver;
use super::objects::Context;
use crate::io::streams;
use crate::refusal::refused;
use crate::Root;
use numaio_machine::probe::{IoOutcome, ProbeError};
use numaio_machine::workload::IoWorkload;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Maximum copies in flight per stream; each has an event.
const MAX_DEPTH: u32 = 1024;

/// Copies between memory and GPUs. `limit_bytes` are the bytes that the control group still
/// allows.
///
/// # Errors
/// [`ProbeError::Refused`] if the GPU does not exist or the driver returns an error. An error
/// during the measurement ends the run early and is part of the outcome.
pub fn run(
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    devices: &[u32],
) -> Result<IoOutcome, ProbeError> {
    let driver = Driver::loaded()?;
    devices.iter().try_for_each(|device| retain_context(driver, *device))?;
    run_with_driver(driver, root, limit_bytes, workload, devices)
}

/// Retains a device's context for the lifetime of the process: recreating it takes about as long as
/// a measurement.
fn retain_context(driver: &Driver, device: u32) -> Result<(), ProbeError> {
    static RETAINED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let mut kept = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains(&device) {
        std::mem::forget(Context::of(driver, device)?);
        kept.insert(device);
    }
    Ok(())
}

/// Runs the workload with the given driver; see [`run`].
pub fn run_with_driver(
    driver: &Driver,
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    devices: &[u32],
) -> Result<IoOutcome, ProbeError> {
    streams::check_limits(workload, 1)?;
    if workload.depth > MAX_DEPTH {
        return refused("GPU", format!("{} copies in flight, expected at most {MAX_DEPTH}", workload.depth));
    }
    let contexts: Vec<Context> =
        devices.iter().map(|device| Context::of(driver, *device)).collect::<Result<_, _>>()?;
    let workers = streams::workers(workload, 1);
    streams::run(root, limit_bytes, workload, &workers, |worker, buffer| {
        let Some(context) = contexts.get(worker.device) else {
            return refused("GPU", "a stream names no GPU of the workload");
        };
        context.enter()?;
        // SAFETY: only this worker uses the buffer, which outlives the queue.
        let copies = unsafe { CopyQueue::new(context, buffer, workload.depth as usize, worker.direction) }?;
        Ok((copies, None))
    })
}
