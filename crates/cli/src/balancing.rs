//! Automatic NUMA balancing paused during a campaign.

use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::options::Common;
use crate::receipts::{self, UndoOutcome};
use crate::{output, store};
use numaio_linux::Kernel;
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_schema::{AppliedChange, Receipt};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// ID of the receipt.
const RECEIPT: &str = "balancing";

/// Keeps balancing off until it is dropped.
///
/// The receipt on disk survives a crash: the next pause undoes it first, unless the machine was
/// rebooted since.
pub struct BalancingPause<'a> {
    common: &'a Common,
    machine: &'a Kernel,
    fingerprint: String,
    receipt: Option<Receipt>,
    path: PathBuf,
    /// Locked while balancing is paused.
    lock: Option<File>,
}

/// Pauses balancing if requested, and if the measured machine is this one.
pub fn pause<'a>(
    common: &'a Common,
    requested: bool,
    machine: &'a Machine,
    fingerprint: &str,
) -> Result<Option<BalancingPause<'a>>, Failure> {
    match machine.kernel() {
        Some(kernel) if requested => BalancingPause::begin(common, kernel, fingerprint).map(Some),
        _ => Ok(None),
    }
}

impl<'a> BalancingPause<'a> {
    /// Switches balancing off, if it is on.
    fn begin(common: &'a Common, machine: &'a Kernel, fingerprint: &str) -> Result<Self, Failure> {
        let path = store::receipt(fingerprint, RECEIPT)?;
        let lock = lock(&path)?;
        undo_interrupted_runs(common, machine, &path)?;
        let fingerprint = fingerprint.to_owned();
        let mut paused = Self { common, machine, fingerprint, receipt: None, path, lock };
        if let Some(mode) = conditions::read(machine).numa_balancing.filter(|mode| *mode != 0) {
            let [change, inverse] = [0, mode].map(|mode| Change::NumaBalancing { mode });
            let receipt = receipts::planned_receipt(
                machine,
                &paused.fingerprint,
                vec![AppliedChange { change, inverse }],
            );
            let applied = receipts::apply(machine, receipt, &paused.path);
            let permission_hint = "run as root, or omit --pause-balancing";
            paused.receipt = Some(applied.map_err(|error| receipts::apply_failure(error, permission_hint))?);
        } else {
            // It was off before, so other runs need not wait.
            paused.lock = None;
        }
        Ok(paused)
    }
}

/// Undoes the changes of killed runs, newest first.
///
/// A CPU that went offline changes the fingerprint, so receipts of other fingerprints have their
/// own locks; `own` is locked already.
fn undo_interrupted_runs(common: &Common, machine: &Kernel, own: &Path) -> Result<(), Failure> {
    let _lock = receipts::lock(common);
    let all = receipts::all(common, machine)?;
    for interrupted in all.iter().rev().filter(|stored| stored.id == RECEIPT) {
        let _other_lock = if interrupted.path == own { None } else { lock(&interrupted.path)? };
        if !interrupted.path.exists() {
            // The run was not killed; it has just ended.
            continue;
        }
        // After a reboot the setting is new, and not ours to change.
        if let UndoOutcome::Done { .. } = receipts::undo(machine, interrupted, &all)? {
            output::remark(common, "restored NUMA balancing, which a killed run had switched off");
        }
    }
    Ok(())
}

/// Locks the receipt, so that no other run switches balancing on during a measurement.
///
/// None if the file system has no locks (flock(2)).
fn lock(receipt: &Path) -> Result<Option<File>, Failure> {
    let path = receipt.with_extension("lock");
    let file = File::create(&path).map_err(|error| failure::cannot_write(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::new("another run of numaio has paused NUMA balancing, and will switch it on again")
                .hint("wait until it ends, or omit --pause-balancing"))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl BalancingPause<'_> {
    fn end(&mut self) {
        let Some(receipt) = self.receipt.take() else { return };
        match numaio_place::undo(self.machine, &self.fingerprint, receipt) {
            Ok(unrestored) if unrestored.is_empty() => drop(fs::remove_file(&self.path)),
            Ok(unrestored) => {
                output::remark(self.common, &format!("cannot restore: {unrestored:?}"));
            }
            Err(error) => output::remark(self.common, &error.to_string()),
        }
    }
}

impl Drop for BalancingPause<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
