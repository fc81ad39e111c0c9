//! What numaio changed on this machine: every receipt under one roof, kept until it is taken back.

use crate::args::Common;
use crate::failure::Failure;
use crate::machine::{now, Machine};
use crate::store::Durable;
use crate::{failure, input, output, store};
use numaio_linux::Kernel;
use numaio_machine::control::{boot_id, Change, ControlError};
use numaio_machine::devices::{interrupt_names, Device};
use numaio_machine::discover::discover;
use numaio_machine::topology::Topology;
use numaio_place::{ApplyError, ReassignedIrq};
use numaio_schema::{AppliedChange, Receipt};
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

/// A receipt that is kept.
#[derive(Clone)]
pub struct StoredReceipt {
    /// By what it is called: `irq-1`, `interleave`, `balancing`.
    pub id: String,
    pub path: PathBuf,
    pub receipt: Receipt,
}

impl StoredReceipt {
    /// Whether it names a device as that alone is known now, or by these words.
    pub fn names_device(&self, device: &str, topology: &Topology) -> bool {
        let is_alone = |seen: &Device, name: &str| seen.distinct_name(&topology.devices) == name;
        self.matches_device(device, topology, is_alone)
            || self.receipt.devices.iter().any(|name| name == device)
    }

    /// Whether it names a device in any way: another one that had the same name may have gone or come since.
    pub fn may_name_device(&self, device: &str, topology: &Topology) -> bool {
        self.matches_device(device, topology, Device::has_name)
    }

    fn matches_device(&self, device: &str, topology: &Topology, is: impl Fn(&Device, &str) -> bool) -> bool {
        let mut seen = topology.devices.iter().filter(|seen| seen.has_name(device));
        seen.any(|seen| self.receipt.devices.iter().any(|name| is(seen, name)))
    }
}

/// This machine, whose settings can be changed.
pub fn live_kernel(common: &Common) -> Result<Kernel, Failure> {
    match Machine::pick(common)? {
        Machine::Live(kernel) => Ok(kernel),
        _ => Err(Failure::usage("only this machine's settings can be changed")
            .hint("leave --machine and --sysroot out")),
    }
}

/// A receipt of what is about to be changed here.
pub fn planned_receipt(kernel: &Kernel, machine: &str, applied: Vec<AppliedChange>) -> Receipt {
    let mut names = interrupt_names(kernel);
    let handlers = applied.iter().filter_map(|applied| match applied.change {
        Change::IrqAffinity { irq, .. } => names.remove_entry(&irq),
        _ => None,
    });
    let handlers = handlers.collect();
    Receipt { handlers, ..Receipt::planned(machine, boot_id(kernel), now(), applied) }
}

/// Carries changes out, with their receipt on disk from before the first.
pub fn apply(kernel: &Kernel, receipt: Receipt, path: &PathBuf) -> Result<Receipt, ApplyError> {
    let mut keep = |receipt: &Receipt| {
        let json = serde_json::to_string(receipt).map_err(|error| error.to_string())?;
        store::write_file(path, json.as_bytes()).map_err(|failure| failure.message)
    };
    let done = numaio_place::apply(kernel, receipt, &mut keep);
    if matches!(done, Err(ApplyError::Failed(_) | ApplyError::ReceiptNotSaved(_))) {
        // All was taken back.
        let _ = fs::remove_file(path);
    }
    done
}

/// Why changes were not carried out; `rights` tells what to do where it is for want of them.
pub fn apply_failure(error: ApplyError, rights: &str) -> Failure {
    let hint = match &error {
        ApplyError::Failed(ControlError::Denied { .. }) => rights,
        ApplyError::Failed(_) => "nothing is changed",
        ApplyError::PartiallyApplied { .. } => "numaio undo tries again to take it back",
        ApplyError::ReceiptNotSaved(_) => "set XDG_STATE_HOME to a folder that can be written",
        ApplyError::OtherMachine { .. } => "run it on that machine",
    };
    Failure::new(&error).hint(hint)
}

/// Receipts of this machine, oldest first; those that cannot be read are told of.
///
/// They are those with its fingerprint and those of this start of its kernel, which tells a machine from all others: a CPU that goes
/// offline and a device that comes or goes give it another fingerprint.
pub fn all(common: &Common, kernel: &Kernel) -> Result<Vec<StoredReceipt>, Failure> {
    let (machine, booted) = (discover(kernel).identity.fingerprint, boot_id(kernel));
    let mut found = Vec::new();
    for file in store::receipts()? {
        let is_its = file.machine == machine;
        let text = match input::read_text(&file.path) {
            // It may be another machine's, where several share a home.
            Err(_) if !is_its => continue,
            text => text?,
        };
        match Receipt::from_json(&text) {
            Ok(receipt) if is_its || (booted.is_some() && receipt.boot == booted) => {
                found.push(StoredReceipt { id: file.what, path: file.path, receipt });
            }
            Err(error) if is_its => output::remark(common, &format!("{}: {error}", file.path.display())),
            _ => {}
        }
    }
    Ok(oldest_first(found))
}

/// Oldest first. Those of interrupts go by their numbers alone, as the clock may have been set back between two: to the others, which change
/// other settings, none of them is older than one before it.
fn oldest_first(mut stored: Vec<StoredReceipt>) -> Vec<StoredReceipt> {
    stored.sort_by_key(|stored| number(&stored.id));
    let mut latest = 0;
    let made_at = |stored: StoredReceipt| {
        if !stored.id.starts_with("irq-") {
            return (stored.receipt.made_at, stored);
        }
        latest = stored.receipt.made_at.max(latest);
        (latest, stored)
    };
    let mut dated: Vec<(u64, StoredReceipt)> = stored.into_iter().map(made_at).collect();
    dated.sort_by_key(|(at, stored)| (*at, number(&stored.id)));
    dated.into_iter().map(|(_, stored)| stored).collect()
}

fn number(id: &str) -> u32 {
    id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// As long as it is kept, no other numaio changes interrupts here or takes changes back: what is planned rests on what is set now, and
/// is taken back in the order in which it was made. None where the file system has no locks (flock(2)).
pub fn lock(common: &Common) -> Option<File> {
    let folder = File::open(store::receipts_folder().ok()?).ok()?;
    if let Err(TryLockError::WouldBlock) = folder.try_lock() {
        output::remark(common, "it waits for another numaio that changes settings or takes changes back");
    }
    folder.lock().ok()?;
    Some(folder)
}

/// Carries changes of interrupts out, with a receipt of their own; gives its name, too.
pub fn apply_irq(kernel: &Kernel, mut receipt: Receipt) -> Result<(String, Receipt), ApplyError> {
    receipt.underway = Some(0);
    let there = store::receipts().map_err(|failure| ApplyError::ReceiptNotSaved(failure.message))?;
    // Of whatever machine: names stay apart when the fingerprint of this one changes.
    let last = there.iter().filter(|file| file.what.starts_with("irq-")).map(|file| number(&file.what)).max();
    let place = |id: &str| store::receipt(&receipt.machine, id);
    let (id, path) = save_new(&receipt, last.unwrap_or(0), place)
        .map_err(|failure| ApplyError::ReceiptNotSaved(failure.message))?;
    apply(kernel, receipt, &path).map(|done| (id, done))
}

/// Keeps a receipt under the first free number after the last that was seen: another numaio may have taken one since.
fn save_new(
    receipt: &Receipt,
    last: u32,
    place: impl Fn(&str) -> Result<PathBuf, Failure>,
) -> Result<(String, PathBuf), Failure> {
    let json = serde_json::to_string(receipt).map_err(Failure::new)?;
    let mut number = last;
    loop {
        number = number.saturating_add(1);
        let id = format!("irq-{number}");
        let path = place(&id)?;
        let is_new = store::create(&path, json.as_bytes(), Durable(true));
        if is_new.map_err(|error| failure::cannot_write(&path, &error))? {
            return Ok((id, path));
        }
    }
}

/// Whether the machine was started anew since: no change outlives that.
fn is_over(receipt: &Receipt, kernel: &Kernel) -> bool {
    let booted = boot_id(kernel);
    receipt.boot.is_some() && booted.is_some() && receipt.boot != booted
}

/// How taking a receipt back went.
pub enum UndoOutcome {
    /// All is as it was, but what belongs to another device by now.
    Done {
        /// How many settings were taken back.
        settings: usize,
        /// What was left alone.
        foreign: Vec<ReassignedIrq>,
    },
    /// The machine was started anew since: nothing was left to take back.
    Rebooted,
}

/// Takes back what a receipt tells, and removes it.
///
/// # Errors
/// If a newer receipt changes the same settings, and if a setting cannot be taken back: the receipt stays.
pub fn undo(
    kernel: &Kernel,
    stored: &StoredReceipt,
    others: &[StoredReceipt],
) -> Result<UndoOutcome, Failure> {
    // Those that were taken back by this command are gone.
    let newer =
        others.iter().skip_while(|other| other.path != stored.path).skip(1).filter(|it| it.path.exists());
    let booted = boot_id(kernel);
    let machine = match booted.is_some() && stored.receipt.boot == booted {
        // The same start of the kernel is the same machine, whatever its fingerprint is now.
        true => stored.receipt.machine.clone(),
        false => discover(kernel).identity.fingerprint,
    };
    let how = if is_over(&stored.receipt, kernel) && stored.receipt.machine == machine {
        UndoOutcome::Rebooted
    } else {
        let is_over = |other: &&StoredReceipt| {
            other.receipt.overlaps(&stored.receipt)
                && (other.receipt.boot.is_none() || other.receipt.boot == booted)
        };
        if let Some(over) = newer.into_iter().find(is_over) {
            return Err(Failure::new(format!(
                "{} changed some of the same settings after {}",
                over.id, stored.id
            ))
            .hint(format!("first numaio undo {}", over.id)));
        }
        let (receipt, foreign) = numaio_place::without_reassigned(kernel, stored.receipt.clone());
        let settings = receipt.applied.len();
        let left = numaio_place::undo(kernel, &machine, receipt).map_err(Failure::new)?;
        if let Some(first) = left.first() {
            let more = match left.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            return Err(Failure::new(format!("still in force: {}{more}", first.change)).hint(
                "run as root; if the device or its driver is gone, so are its settings: numaio undo --forget ID",
            ));
        }
        UndoOutcome::Done { settings, foreign }
    };
    fs::remove_file(&stored.path).map_err(|error| Failure::file(&stored.path, error))?;
    Ok(how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(made_at: u64) -> Receipt {
        Receipt::planned("a", None, made_at, Vec::new())
    }

    #[test]
    fn interrupts_go_by_their_numbers_whatever_the_clock_said() {
        let stored = |(id, made_at): (&str, u64)| StoredReceipt {
            id: id.into(),
            path: PathBuf::from(id),
            receipt: receipt(made_at),
        };
        let mixed = [("irq-10", 40), ("balancing", 35), ("irq-9", 10), ("irq-2", 30), ("interleave", 20)];
        let ordered: Vec<String> =
            oldest_first(mixed.map(stored).into()).into_iter().map(|stored| stored.id).collect();
        assert_eq!(ordered, ["interleave", "irq-2", "irq-9", "balancing", "irq-10"]);
    }

    #[test]
    fn two_that_saw_the_same_receipts_keep_two() {
        let dir = std::env::temp_dir().join(format!("numaio-receipts-{}", std::process::id()));
        fs::create_dir(&dir).expect("a folder");
        let keep = |made_at| save_new(&receipt(made_at), 3, |id| Ok(dir.join(id))).expect("kept");
        let stored = [keep(1), keep(2)];
        let read = |path: &PathBuf| Receipt::from_json(&fs::read_to_string(path).expect("a file"));
        let times = stored.each_ref().map(|(_, path)| read(path).expect("a receipt").made_at);
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!((stored.map(|(id, _)| id), times), (["irq-4".to_owned(), "irq-5".to_owned()], [1, 2]));
    }
}
