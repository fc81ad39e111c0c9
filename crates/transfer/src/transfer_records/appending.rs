//! Appends records to the file of a day.

use super::day_files::day_file;
use crate::line::json_line;
use numaio_linux::user_files::{append_records, create_directory};
use numaio_machine::calendar::Day;
use numaio_schema::TransferRecord;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Appends a record to the file of a day, durably.
///
/// # Errors
/// I/O errors; the file does not contain a part of the record.
pub fn append(directory: &Path, day: Day, record: &TransferRecord) -> io::Result<()> {
    // Records name users and their addresses.
    create_directory(directory, 0o750)?;
    let mut file = append_records(&day_file(directory, day), 0o640)?;
    // Another daemon may use the directory; not every file system has locks.
    drop(file.lock());
    let length = file.metadata()?.len();
    let mut line = json_line(record)?;
    if length > 0 && last_byte(&mut file)? != b'\n' {
        // A crash cut the last line.
        line.insert(0, '\n');
    }
    file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).inspect_err(|_| {
        // A full file system may have stored a part of the line.
        drop(file.set_len(length));
    })
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}
