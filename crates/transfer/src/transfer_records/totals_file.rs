//! The file with the totals of past days.

use numaio_schema::TransferTotals;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum length of the file of totals.
const MAX_BYTES: u64 = 64 << 20;

/// Returns the path of the file.
pub(super) fn totals_file(directory: &Path) -> PathBuf {
    directory.join("transfer-totals.json")
}

/// Reads the totals of past days; empty ones without a file.
///
/// # Errors
/// The file cannot be read, or is not such a document.
pub fn read_totals(directory: &Path) -> io::Result<TransferTotals> {
    let mut text = String::new();
    match File::open(totals_file(directory)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TransferTotals::new()),
        file => file?.take(MAX_BYTES).read_to_string(&mut text)?,
    };
    TransferTotals::from_json(&text)
        .map_err(|error| io::Error::other(format!("{}: {error}", totals_file(directory).display())))
}
