//! `numaio fleet export`: the tables as CSV.

use super::store_access;
use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use clap::Args;
use numaio_fleet::store::DESCRIPTION;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the tables of a store as CSV
///
/// One file for each table, and datapackage.json, which describes their columns (Table Schema).
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The store
    #[arg(value_name = "DB")]
    pub store: PathBuf,
    /// Directory of the files; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub csv: PathBuf,
}

/// Runs `numaio fleet export`.
pub fn run(common: &Common, args: &ExportArgs) -> Result<ExitCode, Failure> {
    let written = store_access::open(&args.store)?.export_csv(&args.csv)?;
    let files = written.iter().map(|(name, rows)| format!("{name} ({rows} rows)"));
    let names: Vec<String> = files.chain([DESCRIPTION.to_owned()]).collect();
    output::remark(common, &format!("wrote {} in {}", names.join(", "), args.csv.display()));
    Ok(ExitCode::SUCCESS)
}
