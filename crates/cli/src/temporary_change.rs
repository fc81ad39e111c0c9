//! Settings that are changed during a campaign, and restored at its end.

use crate::failure::{self, Failure};
use crate::options::Common;
use crate::receipts::{self, UndoOutcome};
use crate::{output, store};
use numaio_linux::user_files::{lock_file, remove_file};
use numaio_linux::Kernel;
use numaio_schema::{AppliedChange, Receipt};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// A kind of temporary change: its receipt, and its texts.
#[derive(Debug)]
pub struct TemporarySetting {
    /// ID of the receipt.
    pub receipt: &'static str,
    /// Error if another run has changed the setting, and how to proceed.
    pub busy: (&'static str, &'static str),
    /// Remark after the change of a killed run was undone.
    pub restored: &'static str,
    /// Hint if permission was denied.
    pub permission_hint: &'static str,
}

/// Keeps settings changed until it is dropped.
///
/// The receipt on disk survives a crash: the next change undoes it first, unless the machine was
/// rebooted since.
pub struct TemporaryChange<'a> {
    common: &'a Common,
    machine: &'a Kernel,
    fingerprint: String,
    receipt: Option<Receipt>,
    path: PathBuf,
    /// Locked while the settings are changed.
    lock: Option<File>,
}

impl<'a> TemporaryChange<'a> {
    /// Applies the changes that `plan` returns; none if the settings already have their values.
    ///
    /// # Errors
    /// Another run has changed the setting, or a change failed: nothing is changed.
    pub fn begin(
        common: &'a Common,
        machine: &'a Kernel,
        fingerprint: &str,
        setting: &TemporarySetting,
        plan: impl FnOnce() -> Result<Vec<AppliedChange>, Failure>,
    ) -> Result<Self, Failure> {
        let path = store::receipt(fingerprint, setting.receipt)?;
        let lock = lock(setting, &path)?;
        undo_interrupted_runs(common, machine, setting, &path)?;
        let fingerprint = fingerprint.to_owned();
        let mut changed = Self { common, machine, fingerprint, receipt: None, path, lock };
        let planned = plan()?;
        if planned.is_empty() {
            // Other runs need not wait.
            changed.lock = None;
            return Ok(changed);
        }
        let receipt = receipts::planned_receipt(machine, &changed.fingerprint, planned);
        let applied = receipts::apply(machine, receipt, &changed.path);
        changed.receipt =
            Some(applied.map_err(|error| receipts::apply_failure(error, setting.permission_hint))?);
        Ok(changed)
    }
}

/// Undoes the changes of killed runs, newest first.
///
/// A CPU that went offline changes the fingerprint, so receipts of other fingerprints have their
/// own locks; `own` is locked already.
fn undo_interrupted_runs(
    common: &Common,
    machine: &Kernel,
    setting: &TemporarySetting,
    own: &Path,
) -> Result<(), Failure> {
    let _lock = receipts::lock(common);
    let all = receipts::all(common, machine)?;
    for interrupted in all.iter().rev().filter(|stored| stored.id == setting.receipt) {
        let _other_lock = if interrupted.path == own { None } else { lock(setting, &interrupted.path)? };
        if !interrupted.path.exists() {
            // The run was not killed; it has just ended.
            continue;
        }
        // After a reboot the setting is new, and not ours to change.
        if let UndoOutcome::Done { .. } = receipts::undo(machine, interrupted, &all)? {
            output::remark(common, setting.restored);
        }
    }
    Ok(())
}

/// Locks the receipt, so that no other run restores the setting during a measurement.
///
/// None if the file system has no locks (flock(2)).
fn lock(setting: &TemporarySetting, receipt: &Path) -> Result<Option<File>, Failure> {
    let path = receipt.with_extension("lock");
    let file = lock_file(&path).map_err(|error| failure::cannot_write(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let (message, hint) = setting.busy;
            Err(Failure::new(message).hint(hint))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl TemporaryChange<'_> {
    fn end(&mut self) {
        let Some(receipt) = self.receipt.take() else { return };
        match numaio_place::undo(self.machine, &self.fingerprint, receipt) {
            Ok((unrestored, _)) if unrestored.is_empty() => drop(remove_file(&self.path)),
            Ok((unrestored, _)) => {
                output::remark(self.common, &format!("cannot restore: {unrestored:?}"));
            }
            Err(error) => output::remark(self.common, &error.to_string()),
        }
    }
}

impl Drop for TemporaryChange<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
