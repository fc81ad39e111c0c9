//! `numaio undo`: reverts settings that numaio changed on this machine.

use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use crate::receipts::{self, ForeignReceipt, StoredReceipt, UndoOutcome};
use clap::Args;
use numaio_linux::user_files::remove_file;
use numaio_linux::Kernel;
use numaio_machine::printable::printable;
use numaio_place::ReassignedIrq;
use std::process::ExitCode;

/// Revert settings that numaio changed on this machine.
///
/// The settings are interrupts, packet steering, interleave weights, NUMA balancing, hardware
/// prefetchers, the CPUs and memory of programs that numaio balance moved and of guests that numaio
/// vm moved, and virtual functions that numaio vm place enabled. numaio saves a receipt before each
/// change, so that undo works even after numaio was killed. A reboot reverts all changes; then undo
/// only removes the receipts.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// ID of the change, as shown by --list; default: the newest
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// List the changes that can be reverted, newest first, and change nothing
    #[arg(long, conflicts_with_all = ["all", "forget"])]
    pub list: bool,
    /// Revert all changes, newest first
    #[arg(long, conflicts_with_all = ["id", "forget"])]
    pub all: bool,
    /// Remove the receipt and keep the settings, for example if the device was removed
    #[arg(long, requires = "id")]
    pub forget: bool,
    /// Print JSON with --list
    #[arg(long, requires = "list")]
    pub json: bool,
}

/// Runs `numaio undo`.
pub fn run(common: &Common, args: &UndoArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = (!args.list).then(|| receipts::lock(common));
    if args.list {
        return list(common, args, receipts::with_foreign(common, &kernel)?);
    }
    let all = receipts::all(common, &kernel)?;
    if args.forget {
        let stored = find_receipt(&all, args.id.as_deref())?;
        remove_file(&stored.path).map_err(|error| Failure::file(&stored.path, error))?;
        output::remark(common, &format!("removed the receipt '{}'; its settings stay in effect", stored.id));
        return Ok(ExitCode::SUCCESS);
    }
    if args.all {
        undo_each(common, &kernel, all.iter().rev(), &all)?;
    } else if args.id.is_none() && all.is_empty() {
        output::remark(common, "numaio has no changes to revert on this machine");
    } else {
        undo_one(common, &kernel, find_receipt(&all, args.id.as_deref())?, &all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Undoes receipts in order, and continues after a failure.
///
/// # Errors
/// The first failure; later ones are reported here.
pub fn undo_each<'a>(
    common: &Common,
    kernel: &Kernel,
    chosen: impl Iterator<Item = &'a StoredReceipt>,
    all: &[StoredReceipt],
) -> Result<(), Failure> {
    let mut first = None;
    for stored in chosen {
        let Err(failure) = undo_one(common, kernel, stored, all) else { continue };
        let failure = Failure { message: format!("{}: {}", stored.id, failure.message), ..failure };
        match first {
            None => first = Some(failure),
            Some(_) => drop(output::report_failure(&failure)),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Undoes a receipt and reports it.
fn undo_one(
    common: &Common,
    kernel: &Kernel,
    stored: &StoredReceipt,
    all: &[StoredReceipt],
) -> Result<(), Failure> {
    let id = &stored.id;
    let text = match receipts::undo(kernel, stored, all)? {
        UndoOutcome::Done { settings, reassigned, report } => {
            receipts::remark_left(common, &report);
            for ReassignedIrq { irq, was, is } in reassigned {
                let message =
                    format!("kept interrupt {irq}: it belonged to '{was}', and now belongs to '{is}'");
                output::remark(common, &message);
            }
            format!("reverted {id}: {}", count(settings))
        }
        UndoOutcome::Rebooted => {
            format!("{id}: a reboot has already reverted it")
        }
    };
    output::remark(common, &text);
    Ok(())
}

fn count(settings: usize) -> String {
    match settings {
        1 => "restored 1 setting".to_owned(),
        settings => format!("restored {settings} settings"),
    }
}

/// Finds the receipt with an ID, or the newest.
fn find_receipt<'a>(all: &'a [StoredReceipt], id: Option<&str>) -> Result<&'a StoredReceipt, Failure> {
    let found = match id {
        // After a change of the fingerprint, two receipts may have the same ID: the newer is first.
        Some(id) => all.iter().rfind(|stored| stored.id == id),
        None => all.last(),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|stored| stored.id.as_str()).collect();
        let failure = Failure::usage(format!("change '{}' not found", id.unwrap_or_default()));
        match names.is_empty() {
            true => failure.hint("numaio has no changes to revert on this machine"),
            false => {
                failure.hint(format!("changes: {}; numaio undo --list describes them", names.join(", ")))
            }
        }
    })
}

fn list(
    common: &Common,
    args: &UndoArgs,
    (all, foreign): (Vec<StoredReceipt>, Vec<ForeignReceipt>),
) -> Result<ExitCode, Failure> {
    let receipts: Vec<_> = all.iter().rev().map(|stored| (stored.id.as_str(), &stored.receipt)).collect();
    let text = match args.json {
        true => {
            let entries: Vec<_> = receipts.iter().map(|(id, receipt)| Entry { id, receipt }).collect();
            output::json(&entries)?
        }
        // A list without receipts would report that none exist.
        false if receipts.is_empty() && !foreign.is_empty() => String::new(),
        false => numaio_report::receipts_text(&receipts, &output::style(common)),
    };
    output::print(&text)?;
    for ForeignReceipt { id, why } in foreign {
        let text = format!("{id}: not used, {why}");
        match args.json {
            true => output::remark(common, &text),
            false => output::print(&(printable(&text) + "\n"))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(serde::Serialize)]
struct Entry<'a> {
    id: &'a str,
    #[serde(flatten)]
    receipt: &'a numaio_schema::Receipt,
}
