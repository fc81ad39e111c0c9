//! `--log-file`: changes, failures and the summary of a transfer, appended to a file.

use crate::failure::{cannot_write, Failure};
use numaio_linux::local_time::local_time_text;
use numaio_linux::user_files;
use numaio_machine::printable::printable;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// An open log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// Lines that are not written yet.
    lines: String,
    /// The time of the lines, which is formatted once per batch.
    time: Option<String>,
}

impl LogFile {
    /// Opens a log file, and creates it if necessary.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = user_files::append(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.to_owned(), file, lines: String::new(), time: None })
    }

    /// Adds a line.
    pub fn add(&mut self, text: &str) {
        let time = self.time.get_or_insert_with(|| local_time_text(SystemTime::now()));
        self.lines += &format!("{time} [{}] {}\n", std::process::id(), printable(text));
    }

    /// Writes the added lines, in one piece: several processes may share a log file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.time = None;
        let lines = std::mem::take(&mut self.lines);
        self.file.write_all(lines.as_bytes()).map_err(|error| cannot_write(&self.path, &error))
    }
}
