//! Running streams of copies, all at once.

use super::copies::Copies;
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
const MOST_DEPTH: u32 = 1024;

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
    keep(driver, device)?;
    run_by(driver, root, limit_bytes, workload, device)
}

/// Keeps a device's context until this process ends: to make one anew takes about as long as a visit.
fn keep(driver: &Driver, device: u32) -> Result<(), ProbeError> {
    static KEPT: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains(&device) {
        std::mem::forget(Context::of(driver, device)?);
        kept.insert(device);
    }
    Ok(())
}

/// As [`run`], by a driver.
pub fn run_by(
    driver: &Driver,
    root: &Root,
    limit_bytes: Option<u64>,
    workload: &IoWorkload,
    device: u32,
) -> Result<IoOutcome, ProbeError> {
    streams::within_limits(workload, 1)?;
    if workload.depth > MOST_DEPTH {
        return refused("GPU", format!("{} copies in flight; {MOST_DEPTH} can be had", workload.depth));
    }
    let context = Context::of(driver, device)?;
    let lanes = streams::lanes(workload, 1);
    streams::run(root, limit_bytes, workload, &lanes, |lane, buffer| {
        context.enter()?;
        // SAFETY: the buffer is this lane's alone and outlives its queue.
        let copies = unsafe { Copies::new(&context, buffer, workload.depth as usize, lane.direction) }?;
        Ok((copies, None))
    })
}
