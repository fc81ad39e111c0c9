//! Names of the files of days.

use numaio_machine::calendar::Day;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the file of a day.
pub(super) fn day_file(directory: &Path, day: Day) -> PathBuf {
    directory.join(format!("transfers-{day}.jsonl"))
}

/// Returns the day of a file, if it has the name of one.
fn day_of(name: &OsStr) -> Option<Day> {
    Day::parse(name.to_str()?.strip_prefix("transfers-")?.strip_suffix(".jsonl")?)
}

/// Returns the days that have a file, ascending; none without the directory.
pub(super) fn days(directory: &Path) -> io::Result<Vec<Day>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut days: Vec<Day> = entries.flatten().filter_map(|entry| day_of(&entry.file_name())).collect();
    days.sort_unstable();
    Ok(days)
}
