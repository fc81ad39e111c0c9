//! Receipts of changes that numaio made on this machine, stored until the changes are undone.

use crate::failure::Failure;
use crate::machine::{now, Machine};
use crate::options::Common;
use crate::{failure, output, store};
use numaio_linux::user_files::{self, Durable};
use numaio_linux::{interrupt, Kernel};
use numaio_machine::control::{boot_id, Change, ControlError};
use numaio_machine::devices::{interrupt_names, Device};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_machine::units::format_size;
use numaio_place::{ApplyError, ReassignedIrq, RelocationReport};
use numaio_schema::{AppliedChange, Receipt};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Maximum size of a receipt in bytes: the pages and threads of all programs of a machine.
const MAX_BYTES: u64 = 256 << 20;

/// A receipt with its ID and file.
#[derive(Clone)]
pub struct StoredReceipt {
    /// ID, for example `irq-1`, `interleave` or `balancing`.
    pub id: String,
    /// Path of its file.
    pub path: PathBuf,
    /// The receipt.
    pub receipt: Receipt,
}

impl StoredReceipt {
    /// Returns whether it names a device by a currently unique name, or by exactly `device`.
    pub fn names_device(&self, device: &str, topology: &Topology) -> bool {
        let is_distinct = |found: &Device, name: &str| found.distinct_name(&topology.devices) == name;
        self.matches_device(device, topology, is_distinct)
            || self.receipt.devices.iter().any(|name| name == device)
    }

    /// Returns whether it names a device by any of its names, which may have changed owners since.
    pub fn may_name_device(&self, device: &str, topology: &Topology) -> bool {
        self.matches_device(device, topology, Device::has_name)
    }

    fn matches_device(
        &self,
        device: &str,
        topology: &Topology,
        is_named: impl Fn(&Device, &str) -> bool,
    ) -> bool {
        let mut found = topology.devices.iter().filter(|found| found.has_name(device));
        found.any(|found| self.receipt.devices.iter().any(|name| is_named(found, name)))
    }
}

/// Returns the kernel of this machine, whose settings can be changed.
pub fn live_kernel(common: &Common) -> Result<Kernel, Failure> {
    match Machine::pick(common)? {
        Machine::Live(kernel) => Ok(kernel),
        _ => Err(Failure::usage("settings can only be changed on this machine")
            .hint("omit --machine and --sysroot")),
    }
}

/// Builds the receipt of planned changes on this machine.
pub fn planned_receipt(kernel: &Kernel, machine: &str, applied: Vec<AppliedChange>) -> Receipt {
    let mut names = interrupt_names(kernel);
    let handlers = applied.iter().filter_map(|applied| match applied.change {
        Change::IrqAffinity { irq, .. } => names.remove_entry(&irq),
        _ => None,
    });
    let handlers = handlers.collect();
    Receipt { handlers, ..Receipt::planned(machine, boot_id(kernel), now(), applied) }
}

/// Applies changes, with their receipt on disk before the first.
pub fn apply(kernel: &Kernel, receipt: Receipt, path: &Path) -> Result<Receipt, ApplyError> {
    let applied = numaio_place::apply(kernel, receipt, &mut |receipt| save(path, receipt));
    applied.inspect_err(|error| remove_if_undone(path, error))
}

/// Converts an error of [`apply`]; `permission_hint` is the hint if permission was denied.
pub fn apply_failure(error: ApplyError, permission_hint: &str) -> Failure {
    let hint = match &error {
        ApplyError::Failed(ControlError::Denied { .. }) => permission_hint,
        ApplyError::Failed(_) => "nothing was changed",
        ApplyError::PartiallyApplied { .. } => "run numaio undo to retry",
        ApplyError::ReceiptNotSaved(_) => "set XDG_STATE_HOME to a writable directory",
        ApplyError::OtherMachine { .. } => "run it on that machine",
    };
    Failure::new(&error).hint(hint)
}

/// A receipt that is not used, because other users can write or exchange it.
pub struct ForeignReceipt {
    /// Its ID.
    pub id: String,
    /// Why it is not used.
    pub why: String,
}

/// Reads the receipts of this machine, oldest first, and reports those that are not used.
///
/// A receipt belongs to this machine by its fingerprint or by the kernel's boot ID, since hotplug
/// of a CPU or device changes the fingerprint.
pub fn all(common: &Common, kernel: &Kernel) -> Result<Vec<StoredReceipt>, Failure> {
    let (receipts, foreign) = with_foreign(common, kernel)?;
    for ForeignReceipt { id, why } in foreign {
        output::remark(common, &format!("the receipt '{id}' is not used: {why}"));
    }
    Ok(receipts)
}

/// Reads the receipts of this machine, oldest first, and those that are not used, as root would
/// change settings of the machine by a receipt that a user wrote.
pub fn with_foreign(
    common: &Common,
    kernel: &Kernel,
) -> Result<(Vec<StoredReceipt>, Vec<ForeignReceipt>), Failure> {
    let (machine, boot) = (discover(kernel).identity.fingerprint, boot_id(kernel));
    let (mut found, mut foreign) = (Vec::new(), Vec::new());
    for file in store::receipts()? {
        let same_machine = file.machine == machine;
        let text = match user_files::read_trusted_text(&file.path, MAX_BYTES) {
            // Another machine's receipt, in a home directory shared by several machines.
            Err(_) if !same_machine => continue,
            Err(error) if user_files::is_untrusted(&error) => {
                foreign.push(ForeignReceipt { id: file.what, why: error.to_string() });
                continue;
            }
            text => text.map_err(|error| failure::cannot_read(&file.path, &error))?,
        };
        match Receipt::from_json(&text) {
            Ok(receipt) if same_machine || (boot.is_some() && receipt.boot == boot) => {
                found.push(StoredReceipt { id: file.what, path: file.path, receipt });
            }
            Err(error) if same_machine => {
                output::remark(common, &format!("{}: {error}", file.path.display()))
            }
            _ => {}
        }
    }
    Ok((oldest_first(found), foreign))
}

/// Sorts receipts, oldest first.
///
/// Receipts of interrupts are sorted by number, since the clock may have been set back between
/// them; their effective time never decreases.
fn oldest_first(mut stored: Vec<StoredReceipt>) -> Vec<StoredReceipt> {
    stored.sort_by_key(|stored| number(&stored.id));
    let mut latest = 0;
    let with_time = |stored: StoredReceipt| {
        if !stored.id.starts_with("irq-") {
            return (stored.receipt.created_at, stored);
        }
        latest = stored.receipt.created_at.max(latest);
        (latest, stored)
    };
    let mut dated: Vec<(u64, StoredReceipt)> = stored.into_iter().map(with_time).collect();
    dated.sort_by_key(|(at, stored)| (*at, number(&stored.id)));
    dated.into_iter().map(|(_, stored)| stored).collect()
}

fn number(id: &str) -> u32 {
    id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Locks the receipts, so that no other numaio changes or reverts settings meanwhile.
///
/// A plan depends on current settings, and changes must be undone in reverse order. None if the
/// file system has no locks (flock(2)).
pub fn lock(common: &Common) -> Option<File> {
    let folder = user_files::open_directory(&store::receipts_folder().ok()?).ok()?;
    if let Err(TryLockError::WouldBlock) = folder.try_lock() {
        output::remark(common, "waiting for another numaio that changes or reverts settings");
    }
    folder.lock().ok()?;
    Some(folder)
}

/// Applies changes of interrupts with a new receipt; returns its ID and the receipt.
pub fn apply_irq(kernel: &Kernel, receipt: Receipt) -> Result<(String, Receipt), ApplyError> {
    apply_numbered(kernel, receipt, "irq")
}

/// Applies changes with a new receipt, whose ID is the prefix and the next number, such as `vm-2`;
/// returns the ID and the receipt.
pub fn apply_numbered(
    kernel: &Kernel,
    receipt: Receipt,
    prefix: &str,
) -> Result<(String, Receipt), ApplyError> {
    let (id, path) = save_numbered(&receipt, prefix)?;
    apply(kernel, receipt, &path).map(|receipt| (id, receipt))
}

/// Moves programs with a new receipt; returns its ID, the receipt and a report.
pub fn relocate_numbered(
    kernel: &Kernel,
    receipt: Receipt,
    prefix: &str,
) -> Result<(String, Receipt, RelocationReport), ApplyError> {
    let (id, path) = save_numbered(&receipt, prefix)?;
    let moved = numaio_place::relocate(kernel, receipt, &mut |receipt| save(&path, receipt));
    moved.inspect_err(|error| remove_if_undone(&path, error)).map(|(receipt, report)| (id, receipt, report))
}

/// Applies more changes and adds them to a receipt, which is saved before the first.
pub fn extend_numbered(
    kernel: &Kernel,
    receipt: Receipt,
    id: &str,
    changes: Vec<AppliedChange>,
) -> Result<Receipt, ApplyError> {
    let path = store::receipt(&receipt.machine, id)
        .map_err(|failure| ApplyError::ReceiptNotSaved(failure.message))?;
    let mut extended = receipt.clone();
    extended.applied.extend(changes.iter().cloned());
    save(&path, &extended).map_err(ApplyError::ReceiptNotSaved)?;
    let added = Receipt { applied: changes, ..receipt };
    // Threads may have ended meanwhile.
    numaio_place::relocate(kernel, added, &mut |_| Ok(()))?;
    Ok(extended)
}

/// Removes a receipt whose changes were all undone after an error.
fn remove_if_undone(path: &Path, error: &ApplyError) {
    if matches!(error, ApplyError::Failed(_) | ApplyError::ReceiptNotSaved(_)) {
        let _ = user_files::remove_file(path);
    }
}

fn save(path: &Path, receipt: &Receipt) -> Result<(), String> {
    let json = serde_json::to_string(receipt).map_err(|error| error.to_string())?;
    user_files::replace_file(path, json.as_bytes(), Durable(true))
        .map_err(|error| failure::cannot_write(path, &error).message)
}

/// Saves a receipt under a new ID.
fn save_numbered(receipt: &Receipt, prefix: &str) -> Result<(String, PathBuf), ApplyError> {
    let receipt = &Receipt { progress: Some(0), ..receipt.clone() };
    let existing = store::receipts().map_err(|failure| ApplyError::ReceiptNotSaved(failure.message))?;
    // Of all machines, so that IDs stay unique when this machine's fingerprint changes.
    let last =
        existing.iter().filter(|file| is_numbered(&file.what, prefix)).map(|file| number(&file.what)).max();
    let path_of = |id: &str| store::receipt(&receipt.machine, id);
    save_new(receipt, prefix, last.unwrap_or(0), path_of)
        .map_err(|failure| ApplyError::ReceiptNotSaved(failure.message))
}

/// Returns whether an ID consists of the prefix and a number.
fn is_numbered(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'))
}

/// Saves a receipt under the first free number after `last`, which a concurrent numaio may have
/// taken.
fn save_new(
    receipt: &Receipt,
    prefix: &str,
    last: u32,
    path_of: impl Fn(&str) -> Result<PathBuf, Failure>,
) -> Result<(String, PathBuf), Failure> {
    let json = serde_json::to_string(receipt).map_err(Failure::new)?;
    let mut number = last;
    loop {
        number = number.saturating_add(1);
        let id = format!("{prefix}-{number}");
        let path = path_of(&id)?;
        let created = user_files::create(&path, json.as_bytes(), Durable(true));
        if created.map_err(|error| failure::cannot_write(&path, &error))? {
            return Ok((id, path));
        }
    }
}

/// Returns whether the machine was rebooted since the receipt, which reverts every change.
fn is_before_boot(receipt: &Receipt, kernel: &Kernel) -> bool {
    let boot = boot_id(kernel);
    receipt.boot.is_some() && boot.is_some() && receipt.boot != boot
}

/// Undoes the changes of the receipt with an ID, unless another process has.
///
/// # Errors
/// See [`undo`].
pub fn undo_by_id(common: &Common, kernel: &Kernel, id: &str) -> Result<(), Failure> {
    let _lock = lock(common);
    let all = all(common, kernel)?;
    let Some(stored) = all.iter().rfind(|stored| stored.id == id) else { return Ok(()) };
    if let UndoOutcome::Done { report, .. } = undo(kernel, stored, &all)? {
        remark_left(common, &report);
    }
    Ok(())
}

/// Reports memory that stayed where it was, by reason.
pub fn remark_left(common: &Common, report: &RelocationReport) {
    for (why, bytes) in &report.left {
        output::remark(common, &format!("{} of memory stayed: {why}", format_size(*bytes)));
    }
}

/// The result of [`undo`].
pub enum UndoOutcome {
    /// The settings were restored, except for reassigned interrupts.
    Done {
        /// Number of restored settings.
        settings: usize,
        /// Interrupts that now belong to another device, and were left alone.
        reassigned: Vec<ReassignedIrq>,
        /// Memory that stayed where it was.
        report: RelocationReport,
    },
    /// The machine was rebooted since, which reverted the changes.
    Rebooted,
}

/// Undoes the changes of a receipt and removes it.
///
/// # Errors
/// A newer receipt changes the same settings, or a setting cannot be restored: the receipt is
/// kept.
pub fn undo(
    kernel: &Kernel,
    stored: &StoredReceipt,
    others: &[StoredReceipt],
) -> Result<UndoOutcome, Failure> {
    // Receipts that this command has undone no longer exist.
    let newer =
        others.iter().skip_while(|other| other.path != stored.path).skip(1).filter(|it| it.path.exists());
    let boot = boot_id(kernel);
    let machine = match boot.is_some() && stored.receipt.boot == boot {
        // The same boot is the same machine, even if its fingerprint has changed.
        true => stored.receipt.machine.clone(),
        false => discover(kernel).identity.fingerprint,
    };
    let outcome = if is_before_boot(&stored.receipt, kernel) && stored.receipt.machine == machine {
        UndoOutcome::Rebooted
    } else {
        let is_conflicting = |other: &&StoredReceipt| {
            other.receipt.overlaps(&stored.receipt)
                && (other.receipt.boot.is_none() || other.receipt.boot == boot)
        };
        if let Some(conflicting) = newer.into_iter().find(is_conflicting) {
            return Err(Failure::new(format!(
                "{} changed some of the same settings after {}",
                conflicting.id, stored.id
            ))
            .hint(format!("run numaio undo {} first", conflicting.id)));
        }
        let (receipt, reassigned) = numaio_place::without_reassigned(kernel, stored.receipt.clone());
        let settings = receipt.applied.len();
        let undo = || numaio_place::undo(kernel, &machine, receipt);
        let (unrestored, report) = interrupt::defer(undo).map_err(Failure::new)?;
        if let Some(first) = unrestored.first() {
            let more = match unrestored.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            return Err(Failure::new(format!("cannot restore: {}{more}", first.change))
                .hint("run as root; if the device or its driver was removed, run numaio undo --forget ID"));
        }
        UndoOutcome::Done { settings, reassigned, report }
    };
    user_files::remove_file(&stored.path).map_err(|error| Failure::file(&stored.path, error))?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn receipt(created_at: u64) -> Receipt {
        Receipt::planned("a", None, created_at, Vec::new())
    }

    #[test]
    fn sorts_irq_receipts_by_number_despite_clock_changes() {
        let stored = |(id, created_at): (&str, u64)| StoredReceipt {
            id: id.into(),
            path: PathBuf::from(id),
            receipt: receipt(created_at),
        };
        let mixed = [("irq-10", 40), ("balancing", 35), ("irq-9", 10), ("irq-2", 30), ("interleave", 20)];
        let ordered: Vec<String> =
            oldest_first(mixed.map(stored).into()).into_iter().map(|stored| stored.id).collect();
        assert_eq!(ordered, ["interleave", "irq-2", "irq-9", "balancing", "irq-10"]);
    }

    #[test]
    fn concurrent_saves_get_different_numbers() {
        let dir = std::env::temp_dir().join(format!("numaio-receipts-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let save =
            |created_at| save_new(&receipt(created_at), "irq", 3, |id| Ok(dir.join(id))).expect("saved");
        let stored = [save(1), save(2)];
        let read = |path: &PathBuf| Receipt::from_json(&fs::read_to_string(path).expect("a file"));
        let times = stored.each_ref().map(|(_, path)| read(path).expect("a receipt").created_at);
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!((stored.map(|(id, _)| id), times), (["irq-4".to_owned(), "irq-5".to_owned()], [1, 2]));
    }
}
