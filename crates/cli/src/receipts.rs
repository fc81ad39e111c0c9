//! What numaio changed on this machine: every receipt under one roof, kept until it is taken back.

use crate::args::Common;
use crate::failure::Failure;
use crate::machine::{now, Machine};
use crate::{input, output, store};
use numaio_linux::Kernel;
use numaio_machine::control::boot_id;
use numaio_machine::see::see;
use numaio_place::PlaceError;
use numaio_schema::{Applied, Receipt};
use std::fs;
use std::path::PathBuf;

/// A receipt that is kept.
#[derive(Clone)]
pub struct Kept {
    /// By what it is called: `irq-1`, `interleave`, `balancing`.
    pub id: String,
    pub path: PathBuf,
    pub receipt: Receipt,
}

/// This machine, whose settings can be changed.
pub fn this_kernel(common: &Common) -> Result<Kernel, Failure> {
    match Machine::pick(common)? {
        Machine::Live(kernel) => Ok(kernel),
        _ => Err(Failure::usage("only this machine's settings can be changed")
            .hint("leave --machine and --sysroot out")),
    }
}

/// A receipt of what is about to be changed here.
pub fn foreseen(kernel: &Kernel, machine: &str, applied: Vec<Applied>) -> Receipt {
    Receipt::foreseen(machine, boot_id(kernel), now(), applied)
}

/// Carries changes out, with their receipt on disk from before the first.
pub fn carry_out(kernel: &Kernel, receipt: Receipt, path: &PathBuf) -> Result<Receipt, PlaceError> {
    let mut keep = |receipt: &Receipt| {
        let json = serde_json::to_string(receipt).map_err(|error| error.to_string())?;
        store::write_file(path, json.as_bytes()).map_err(|failure| failure.message)
    };
    let done = numaio_place::carry_out(kernel, receipt, &mut keep);
    if matches!(done, Err(PlaceError::Failed(_) | PlaceError::NotKept(_))) {
        // All was taken back.
        let _ = fs::remove_file(path);
    }
    done
}

/// Receipts of one machine, oldest first; those that cannot be read are told of.
pub fn all(common: &Common, machine: &str) -> Result<Vec<Kept>, Failure> {
    let mut found = Vec::new();
    for (id, path) in store::receipts(machine)? {
        let text = input::text(&path)?;
        match Receipt::from_json(&text) {
            Ok(receipt) => found.push(Kept { id, path, receipt }),
            Err(error) => output::remark(common, &format!("{}: {error}", path.display())),
        }
    }
    found.sort_by_key(|kept| (kept.receipt.made_at, number(&kept.id)));
    Ok(found)
}

fn number(id: &str) -> u32 {
    id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The place of a new receipt about interrupts, and its name: after all that are there.
pub fn next_irq(machine: &str) -> Result<(String, PathBuf), Failure> {
    let there = store::receipts(machine)?;
    let last = there.iter().filter(|(id, _)| id.starts_with("irq-")).map(|(id, _)| number(id)).max();
    let id = format!("irq-{}", last.unwrap_or(0).saturating_add(1));
    store::receipt(machine, &id).map(|path| (id, path))
}

/// How taking a receipt back went.
pub enum TakenBack {
    /// All is as it was.
    Done,
    /// The machine was started anew since: nothing was left to take back.
    Rebooted,
}

/// Takes back what a receipt tells, and removes it.
///
/// # Errors
/// If a newer receipt changes the same settings, and if a setting cannot be taken back: the receipt stays.
pub fn take_back(kernel: &Kernel, kept: &Kept, others: &[Kept]) -> Result<TakenBack, Failure> {
    let newer = others.iter().skip_while(|other| other.id != kept.id).skip(1);
    let machine = see(kernel).identity.fingerprint;
    let booted = boot_id(kernel);
    let gone = kept.receipt.boot.is_some() && booted.is_some() && kept.receipt.boot != booted;
    let how = if gone && kept.receipt.machine == machine {
        TakenBack::Rebooted
    } else {
        let is_over = |other: &&Kept| {
            other.receipt.overlaps(&kept.receipt)
                && (other.receipt.boot.is_none() || other.receipt.boot == booted)
        };
        if let Some(over) = newer.into_iter().find(is_over) {
            return Err(Failure::new(format!(
                "{} changed some of the same settings after {}",
                over.id, kept.id
            ))
            .hint(format!("first numaio undo {}", over.id)));
        }
        let left = numaio_place::undo(kernel, &machine, kept.receipt.clone()).map_err(Failure::new)?;
        if let Some(first) = left.first() {
            let more = match left.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            return Err(Failure::new(format!("still in force: {}{more}", first.change)).hint(
                "run as root; if the device or its driver is gone, so are its settings: numaio undo --forget ID",
            ));
        }
        TakenBack::Done
    };
    fs::remove_file(&kept.path).map_err(|error| Failure::file(&kept.path, error))?;
    Ok(how)
}
