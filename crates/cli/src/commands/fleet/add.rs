//! `numaio fleet add`: documents into the store.

use super::content;
use super::store_access::LOCK_WAIT;
use crate::failure::Failure;
use crate::machine::now;
use crate::options::Common;
use crate::output;
use clap::Args;
use numaio_fleet::store::{list_files, FleetStore, IngestEvent, IngestOptions, IngestTotals};
use numaio_linux::interrupt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Add documents of hosts to a store
///
/// Host reports of numaio fleet run, and documents that numaio topology, model, stream, latency and
/// bench wrote with --json. A document that is already stored is skipped.
///
/// Exit status: 1 if a document was rejected; the others are stored.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The store; created if it does not exist
    #[arg(value_name = "DB")]
    pub store: PathBuf,
    /// Documents, and directories that are searched for *.json
    #[arg(value_name = "DOCUMENT|DIR", required = true)]
    pub documents: Vec<PathBuf>,
}

/// Maximum number of messages of each kind; further ones are counted.
const MOST_MESSAGES: usize = 20;

/// Runs `numaio fleet add`.
pub fn run(common: &Common, args: &AddArgs) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    let mut messages = Messages::default();
    let (files, errors) = list_files(&args.documents);
    let mut unreadable = 0;
    for (path, error) in errors {
        unreadable += 1;
        messages.print(IngestEvent::Rejected { path, why: error.to_string() });
    }
    let mut store = FleetStore::open_to_write(&args.store, LOCK_WAIT)?;
    let ingested = with_options(|options| store.ingest(&files, options, &mut |event| messages.print(event)));
    messages.finish();
    let totals = ingested?;
    Ok(report(common, "added", IngestTotals { rejected: totals.rejected + unreadable, ..totals }))
}

/// Calls a function with the options of this process.
pub fn with_options<T>(call: impl FnOnce(&IngestOptions<'_>) -> T) -> T {
    call(&IngestOptions {
        now: now(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        derive: &content::derive,
        is_interrupted: &interrupt::interrupted,
    })
}

/// Prints the counts, and returns the exit status.
pub fn report(common: &Common, verb: &str, totals: IngestTotals) -> ExitCode {
    let IngestTotals { added, known, rejected } = totals;
    let mut text = match added {
        1 => format!("1 document {verb}"),
        _ => format!("{added} documents {verb}"),
    };
    if known > 0 {
        text.push_str(&format!(", {known} already stored"));
    }
    if rejected > 0 {
        text.push_str(&format!(", {rejected} rejected"));
    }
    output::remark(common, &text);
    ExitCode::from(u8::from(rejected > 0))
}

/// Messages about documents on standard error: the first of each kind, then their number.
#[derive(Default)]
pub struct Messages {
    counts: [usize; 3],
}

impl Messages {
    /// Prints an event, unless many of its kind were printed.
    pub fn print(&mut self, event: IngestEvent) {
        let (kind, text) = describe(&event);
        self.counts[kind] += 1;
        if self.counts[kind] <= MOST_MESSAGES {
            output::error_line(&text);
        }
    }

    /// Prints how many events were not printed.
    pub fn finish(&self) {
        const KINDS: [&str; 3] = ["rejected documents", "hosts of one name", "clocks in the future"];
        for (count, kind) in self.counts.iter().zip(KINDS) {
            if let Some(more) = count.checked_sub(MOST_MESSAGES).filter(|more| *more > 0) {
                output::error_line(&format!("{more} more {kind}"));
            }
        }
    }
}

fn describe(event: &IngestEvent) -> (usize, String) {
    match event {
        IngestEvent::Rejected { path, why } => (0, format!("{}: {why}", path.display())),
        IngestEvent::SameName { path, name, machine_ids } => (
            1,
            format!(
                "{}: {} hosts are named '{name}' (machine-ids {}), each stored as its own host",
                path.display(),
                machine_ids.len(),
                machine_ids.join(", ")
            ),
        ),
        IngestEvent::FutureClock { path, host, seconds } => (
            2,
            format!(
                "{}: the clock of '{host}' is {seconds} s ahead of this host's; its figures count as the newest",
                path.display()
            ),
        ),
    }
}
