//! `numaio undo`: take back what numaio changed on this machine.

use crate::args::Common;
use crate::failure::Failure;
use crate::receipts::{self, StoredReceipt, UndoOutcome};
use crate::{commands, output};
use clap::Args;
use numaio_linux::Kernel;
use numaio_place::ReassignedIrq;
use std::fs;
use std::process::ExitCode;

/// Take back what numaio changed on this machine.
///
/// That is interrupts and packet steering, interleave weights, and NUMA balancing. Every change leaves a receipt before it is made, so this works also after numaio was killed. Nothing that numaio
/// changes outlives a restart of the machine: then there is nothing to take back, and the receipt is dropped.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Which change, as --list names it; without it the newest
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Show what can be taken back, newest first, and change nothing
    #[arg(long, conflicts_with_all = ["all", "forget"])]
    pub list: bool,
    /// Take back everything, newest first
    #[arg(long, conflicts_with_all = ["id", "forget"])]
    pub all: bool,
    /// Drop the receipt and leave the settings as they are, as when the device is gone
    #[arg(long, requires = "id")]
    pub forget: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    pub json: bool,
}

pub fn run(common: &Common, args: &UndoArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let _lock = (!args.list).then(|| receipts::lock(common));
    let all = receipts::all(common, &kernel)?;
    if args.list {
        return list(common, args, &all);
    }
    if args.forget {
        let stored = find_receipt(&all, args.id.as_deref())?;
        fs::remove_file(&stored.path).map_err(|error| Failure::file(&stored.path, error))?;
        output::remark(common, &format!("{} is forgotten; what it set stays", stored.id));
        return Ok(ExitCode::SUCCESS);
    }
    if args.all {
        undo_each(common, &kernel, all.iter().rev(), &all)?;
    } else if args.id.is_none() && all.is_empty() {
        output::remark(common, "there is nothing to take back on this machine");
    } else {
        undo_one(common, &kernel, find_receipt(&all, args.id.as_deref())?, &all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes receipts back one after the other, also where one cannot be.
///
/// # Errors
/// The first; the others are said before.
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

/// Takes one receipt back, and says so.
fn undo_one(
    common: &Common,
    kernel: &Kernel,
    stored: &StoredReceipt,
    all: &[StoredReceipt],
) -> Result<(), Failure> {
    let id = &stored.id;
    let text = match receipts::undo(kernel, stored, all)? {
        UndoOutcome::Done { settings, foreign } => {
            for ReassignedIrq { irq, was, is } in foreign {
                let left = format!("interrupt {irq} is left alone: it was {was}, and is {is} now");
                output::remark(common, &output::sanitize(&left));
            }
            format!("{id} is taken back: {}", count(settings))
        }
        UndoOutcome::Rebooted => {
            format!("{id}: the machine was started anew since, which took it back; nothing is left to do")
        }
    };
    output::remark(common, &text);
    Ok(())
}

fn count(settings: usize) -> String {
    match settings {
        1 => "1 setting is as it was".to_owned(),
        settings => format!("{settings} settings are as they were"),
    }
}

/// The receipt of that name, or the newest.
fn find_receipt<'a>(all: &'a [StoredReceipt], id: Option<&str>) -> Result<&'a StoredReceipt, Failure> {
    let found = match id {
        // A machine whose fingerprint has changed may have two of a name: the newer one goes first.
        Some(id) => all.iter().rfind(|stored| stored.id == id),
        None => all.last(),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|stored| stored.id.as_str()).collect();
        let failure =
            Failure::usage(format!("there is no change {} to take back here", id.unwrap_or_default()));
        match names.is_empty() {
            true => failure.hint("numaio changed nothing on this machine, or all was taken back"),
            false => failure
                .hint(format!("there are {}; numaio undo --list tells what they are", names.join(", "))),
        }
    })
}

fn list(common: &Common, args: &UndoArgs, all: &[StoredReceipt]) -> Result<ExitCode, Failure> {
    let receipts: Vec<_> = all.iter().rev().map(|stored| (stored.id.as_str(), &stored.receipt)).collect();
    let text = match args.json {
        true => {
            let entries: Vec<_> = receipts.iter().map(|(id, receipt)| Entry { id, receipt }).collect();
            commands::json(&entries)?
        }
        false => numaio_report::receipts_text(&receipts, &output::style(common)),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(serde::Serialize)]
struct Entry<'a> {
    id: &'a str,
    #[serde(flatten)]
    receipt: &'a numaio_schema::Receipt,
}
