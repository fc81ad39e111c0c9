//! The file with the totals of past days.

use numaio_linux::user_files::read_stored_text;
use numaio_schema::TransferTotals;
use std::io;
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
    let text = match read_stored_text(&totals_file(directory), MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TransferTotals::new()),
        text => text?,
    };
    TransferTotals::from_json(&text)
        .map_err(|error| io::Error::other(format!("{}: {error}", totals_file(directory).display())))
}
