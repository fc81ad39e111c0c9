//! Reads all records of a directory as totals.

use super::day_files::{day_file, days};
use super::totals_file::read_totals;
use crate::line::sanitize;
use numaio_linux::user_files::open_stored;
use numaio_machine::calendar::Day;
use numaio_schema::{TransferRecord, TransferTotals};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Maximum number of remarks about one file.
const MAX_REMARKS: u64 = 3;
/// How often reading starts again because the daemon has folded days meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// Totals of all sessions, and remarks about lines that were skipped.
#[derive(Debug, Default)]
pub struct RecordHistory {
    /// The totals.
    pub totals: TransferTotals,
    /// Remarks for the user.
    pub remarks: Vec<String>,
}

/// Reads the totals of past days and the records of later ones.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read(directory: &Path) -> io::Result<RecordHistory> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut history = RecordHistory { totals: read_totals(directory)?, remarks: Vec::new() };
        let through = history.totals.through_day;
        for day in days(directory)?.into_iter().filter(|day| day.0 > through) {
            history.add_day(directory, day)?;
        }
        // Files that the daemon has folded and deleted meanwhile may be missing.
        if attempts >= MAX_ATTEMPTS || read_totals(directory)?.through_day == through {
            return Ok(history);
        }
    }
}

impl RecordHistory {
    /// Adds the records of a day.
    pub(super) fn add_day(&mut self, directory: &Path, day: Day) -> io::Result<()> {
        let path = day_file(directory, day);
        let mut file = match open_stored(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => BufReader::new(file?),
        };
        let (mut number, mut skipped) = (0_u64, 0_u64);
        while let Some(line) = next_line(&mut file)? {
            number += 1;
            if line.is_empty() {
                continue;
            }
            match TransferRecord::from_json(&line) {
                Ok(record) => self.totals.add(&record),
                Err(error) => {
                    skipped += 1;
                    if skipped <= MAX_REMARKS {
                        let why = sanitize(&error.to_string());
                        self.remarks.push(format!("{}: skipped line {number}: {why}", path.display()));
                    }
                }
            }
        }
        if skipped > MAX_REMARKS {
            let more = skipped - MAX_REMARKS;
            self.remarks.push(format!("{}: skipped {more} more lines", path.display()));
        }
        Ok(())
    }
}

/// Returns the next line without its end, truncated to [`MAX_LINE_BYTES`].
fn next_line(file: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 == MAX_LINE_BYTES {
        file.skip_until(b'\n')?;
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}
