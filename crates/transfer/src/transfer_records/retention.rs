//! Addition of past days to the totals, and deletion of old files.

use super::day_files::{day_file, days};
use super::history::RecordHistory;
use super::totals_file::{read_totals, totals_file};
use numaio_linux::user_files::{remove_file, replace_file, Durable};
use numaio_machine::calendar::Day;
use std::io;
use std::path::Path;

/// Adds the records of all days before `today` to the totals, and returns the remarks about skipped
/// lines.
///
/// # Errors
/// I/O errors; the totals are unchanged.
pub fn fold(directory: &Path, today: Day) -> io::Result<Vec<String>> {
    let mut history = RecordHistory { totals: read_totals(directory)?, remarks: Vec::new() };
    let through = history.totals.through_day;
    let past: Vec<Day> = days(directory)?.into_iter().filter(|day| day.0 > through && *day < today).collect();
    let Some(last) = past.last() else { return Ok(Vec::new()) };
    for day in &past {
        history.add_day(directory, *day)?;
    }
    history.totals.through_day = last.0;
    let json = serde_json::to_vec(&history.totals)?;
    replace_file(&totals_file(directory), &json, Durable(true))?;
    Ok(history.remarks)
}

/// Deletes the files of days that are more than `keep_days` before `today`, if the totals contain
/// them. Returns the number of files.
///
/// # Errors
/// I/O errors.
pub fn delete_old(directory: &Path, today: Day, keep_days: u32) -> io::Result<usize> {
    let through = read_totals(directory)?.through_day;
    let is_old = |day: &Day| day.0 <= through && day.0.saturating_add(keep_days.into()) < today.0;
    let old: Vec<Day> = days(directory)?.into_iter().filter(is_old).collect();
    old.iter().try_for_each(|day| remove_file(&day_file(directory, *day)))?;
    Ok(old.len())
}
