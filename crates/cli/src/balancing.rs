//! Automatic NUMA balancing switched off while a campaign runs.

use crate::args::Common;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::receipts::{self, TakenBack};
use crate::{output, store};
use numaio_linux::Kernel;
use numaio_machine::conditions;
use numaio_machine::control::Change;
use numaio_schema::{Applied, Receipt};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Name of the receipt.
const RECEIPT: &str = "balancing";

/// Balancing is off while this lives, and as before when it is dropped. A receipt on disk outlives a crash:
/// the next pause takes it back first, unless the machine was started anew since.
pub struct Paused<'a> {
    common: &'a Common,
    machine: &'a Kernel,
    fingerprint: String,
    receipt: Option<Receipt>,
    path: PathBuf,
    /// Locked while balancing is paused.
    turn: Option<File>,
}

/// Pauses balancing if that was asked for and the machine is this one.
pub fn pause<'a>(
    common: &'a Common,
    asked: bool,
    machine: &'a Machine,
    fingerprint: &str,
) -> Result<Option<Paused<'a>>, Failure> {
    match machine.kernel() {
        Some(kernel) if asked => Paused::begin(common, kernel, fingerprint).map(Some),
        _ => Ok(None),
    }
}

impl<'a> Paused<'a> {
    /// Switches balancing off, if it is on.
    fn begin(common: &'a Common, machine: &'a Kernel, fingerprint: &str) -> Result<Self, Failure> {
        let path = store::receipt(fingerprint, RECEIPT)?;
        let turn = turn(&path)?;
        take_back_after_crash(common, machine, &path)?;
        let fingerprint = fingerprint.to_owned();
        let mut paused = Self { common, machine, fingerprint, receipt: None, path, turn };
        if let Some(mode) = conditions::read(machine).numa_balancing.filter(|mode| *mode != 0) {
            let [change, inverse] = [0, mode].map(|mode| Change::NumaBalancing { mode });
            let receipt = receipts::foreseen(machine, &paused.fingerprint, vec![Applied { change, inverse }]);
            let done = receipts::carry_out(machine, receipt, &paused.path);
            let rights = "run as root, or leave --pause-balancing out";
            paused.receipt = Some(done.map_err(|error| receipts::refused(error, rights))?);
        } else {
            // It was off before: others need not wait for us.
            paused.turn = None;
        }
        Ok(paused)
    }
}

/// Takes back what runs that were killed have left, the newest first. A CPU that went offline since has given the machine another
/// fingerprint, under which each has its own receipt and turn; that of `own` is ours.
fn take_back_after_crash(common: &Common, machine: &Kernel, own: &Path) -> Result<(), Failure> {
    let _turn = receipts::turn(common);
    let all = receipts::all(common, machine)?;
    for left in all.iter().rev().filter(|kept| kept.id == RECEIPT) {
        let _its_turn = if left.path == own { None } else { turn(&left.path)? };
        if !left.path.exists() {
            // It was not killed: it has just ended.
            continue;
        }
        // After a restart, what balancing is now was set since, and is not ours to change.
        if let TakenBack::Done { .. } = receipts::take_back(machine, left, &all)? {
            output::remark(common, "an earlier run was killed; its change of NUMA balancing is taken back");
        }
    }
    Ok(())
}

/// One run at a time: the first to end would switch balancing on while the other measures. None where the file system has no
/// locks (flock(2)).
fn turn(receipt: &Path) -> Result<Option<File>, Failure> {
    let path = receipt.with_extension("lock");
    let file = File::create(&path).map_err(|error| failure::unwritten(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            "another run of numaio has NUMA balancing paused, and switches it on again when it ends",
        )
        .hint("wait for its end, or leave --pause-balancing out")),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

impl Paused<'_> {
    fn end(&mut self) {
        let Some(receipt) = self.receipt.take() else { return };
        match numaio_place::undo(self.machine, &self.fingerprint, receipt) {
            Ok(left) if left.is_empty() => drop(fs::remove_file(&self.path)),
            Ok(left) => output::remark(self.common, &format!("still in force: {left:?}")),
            Err(error) => output::remark(self.common, &error.to_string()),
        }
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
