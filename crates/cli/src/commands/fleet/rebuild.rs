//! `numaio fleet rebuild`: the derived tables again.

use super::add::{report, with_options, Messages};
use super::store_access::{self, LOCK_WAIT};
use crate::failure::Failure;
use crate::options::Common;
use clap::Args;
use numaio_fleet::store::FleetStore;
use numaio_linux::interrupt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Derive hosts, facts and figures again from the stored documents
///
/// A newer numaio may derive more from the same documents. The file keeps its old tables until the
/// new ones are complete.
///
/// Exit status: 1 if a stored document is damaged or can no longer be used.
#[derive(Debug, Args)]
pub struct RebuildArgs {
    /// The store
    #[arg(value_name = "DB")]
    pub store: PathBuf,
}

/// Runs `numaio fleet rebuild`.
pub fn run(common: &Common, args: &RebuildArgs) -> Result<ExitCode, Failure> {
    interrupt::install().map_err(Failure::new)?;
    // A missing file is an error here, and a new store for `add`.
    drop(store_access::open(&args.store)?);
    let mut store = FleetStore::open_to_write(&args.store, LOCK_WAIT)?;
    let mut messages = Messages::default();
    let rebuilt = with_options(|options| store.rebuild(options, &mut |event| messages.print(event)));
    messages.finish();
    Ok(report(common, "read again", rebuilt?))
}
