//! Writes records of finished sessions. A full disk loses records, but ends no session.

use super::config::RecordOptions;
use super::log::Log;
use crate::transfer_records::{append, delete_old, fold, read_totals};
use numaio_machine::calendar::Day;
use numaio_schema::TransferRecord;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The only writer of records of a daemon.
#[derive(Default)]
pub struct RecordWriter(Mutex<WriterState>);

#[derive(Default)]
struct WriterState {
    /// Number of records that could not be written.
    lost: u64,
    /// Whether the last record could not be written.
    is_failing: bool,
    /// Directory and day for which past days were folded.
    maintained: Option<(PathBuf, Day)>,
    /// The last day in the totals, whose file must not grow.
    through: Day,
}

impl RecordWriter {
    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of records that could not be written.
    pub fn lost(&self) -> u64 {
        self.state().lost
    }

    /// Appends a record. Logs the first failure of several, and the end of the failures.
    pub fn write(&self, log: &Log, options: &RecordOptions, today: Day, record: &TransferRecord) {
        let mut state = self.state();
        state.maintain(log, options, today);
        let directory = options.directory.value.display();
        // After a change of the clock, the file of the day may already be in the totals.
        let day = today.max(Day(state.through.0 + 1));
        match append(&options.directory.value, day, record) {
            Ok(()) if state.is_failing => {
                state.is_failing = false;
                log.info(&format!("writing records to {directory} again; {} were lost so far", state.lost));
            }
            Ok(()) => {}
            Err(error) => {
                state.lost += 1;
                if !std::mem::replace(&mut state.is_failing, true) {
                    log.error(&format!("cannot write records to {directory}: {error}; sessions continue"));
                }
            }
        }
    }

    /// Adds past days to the totals and deletes old files, once a day.
    pub fn maintain(&self, log: &Log, options: &RecordOptions, today: Day) {
        self.state().maintain(log, options, today);
    }
}

impl WriterState {
    fn maintain(&mut self, log: &Log, options: &RecordOptions, today: Day) {
        let directory = &options.directory.value;
        if self.maintained.as_ref().is_some_and(|(of, day)| of == directory && *day == today) {
            return;
        }
        // A failure is tried again on the next day; until then readers use the files.
        self.maintained = Some((directory.clone(), today));
        match fold_and_delete(directory, options.keep_days, today) {
            Ok((remarks, deleted)) => {
                remarks.iter().for_each(|remark| log.warning(remark));
                if deleted > 0 {
                    log.info(&format!("deleted records of {deleted} days from {}", directory.display()));
                }
            }
            Err(error) => {
                log.error(&format!("cannot add past days to the totals in {}: {error}", directory.display()));
            }
        }
        self.through = read_totals(directory).map_or(Day(0), |totals| Day(totals.through_day));
    }
}

/// Returns the remarks about skipped lines and the number of deleted files.
fn fold_and_delete(directory: &Path, keep_days: u32, today: Day) -> io::Result<(Vec<String>, usize)> {
    let remarks = fold(directory, today)?;
    Ok((remarks, delete_old(directory, today, keep_days)?))
}
