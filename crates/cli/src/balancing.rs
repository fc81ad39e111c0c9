//! Automatic NUMA balancing switched off while a campaign runs.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::receipts::{self, UndoOutcome};
use crate::{output, store};
use numaio_linux::Kernel;
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_schema::{AppliedChange, Receipt};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Name of the receipt.
const RECEIPT: &str = "balancing";

/// Balancing is off while this lives, and as before when it is dropped. A receipt on disk outlives a crash:
/// the next pause takes it back first, unless the machine was started anew since.
pub struct BalancingPause<'a> {
    common: &'a Common,
    machine: &'a Kernel,
    fingerprint: String,
    receipt: Option<Receipt>,
    path: PathBuf,
    /// Locked while balancing is paused.
    lock: Option<File>,
}

/// Pauses balancing if that was asked for and the machine is this one.
pub fn pause<'a>(
    common: &'a Common,
    asked: bool,
    machine: &'a Machine,
    fingerprint: &str,
) -> Result<Option<BalancingPause<'a>>, Failure> {
    match machine.kernel() {
        Some(kernel) if asked => BalancingPause::begin(common, kernel, fingerprint).map(Some),
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
            let done = receipts::apply(machine, receipt, &paused.path);
            let rights = "run as root, or leave --pause-balancing out";
            paused.receipt = Some(done.map_err(|error| receipts::apply_failure(error, rights))?);
        } else {
            // It was off before: others need not wait for us.
            paused.lock = None;
        }
        Ok(paused)
    }
}

/// Takes back what runs that were killed have left, the newest first. A CPU that went offline since has given the machine another
/// fingerprint, under which each has its own receipt and turn; that of `own` is ours.
fn undo_interrupted_runs(common: &Common, machine: &Kernel, own: &Path) -> Result<(), Failure> {
    let _lock = receipts::lock(common);
    let all = receipts::all(common, machine)?;
    for left in all.iter().rev().filter(|stored| stored.id == RECEIPT) {
        let _its_lock = if left.path == own { None } else { lock(&left.path)? };
        if !left.path.exists() {
            // It was not killed: it has just ended.
            continue;
        }
        // After a restart, what balancing is now was set since, and is not ours to change.
        if let UndoOutcome::Done { .. } = receipts::undo(machine, left, &all)? {
            output::remark(common, "an earlier run was killed; its change of NUMA balancing is taken back");
        }
    }
    Ok(())
}

/// One run at a time: the first to end would switch balancing on while the other measures. None where the file system has no
/// locks (flock(2)).
fn lock(receipt: &Path) -> Result<Option<File>, Failure> {
    let path = receipt.with_extension("lock");
    let file = File::create(&path).map_err(|error| failure::cannot_write(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            "another run of numaio has NUMA balancing paused, and switches it on again when it ends",
        )
        .hint("wait for its end, or leave --pause-balancing out")),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl BalancingPause<'_> {
    fn end(&mut self) {
        let Some(receipt) = self.receipt.take() else { return };
        match numaio_place::undo(self.machine, &self.fingerprint, receipt) {
            Ok(left) if left.is_empty() => drop(fs::remove_file(&self.path)),
            Ok(left) => output::remark(self.common, &format!("still in force: {left:?}")),
            Err(error) => output::remark(self.common, &error.to_string()),
        }
    }
}

impl Drop for BalancingPause<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
