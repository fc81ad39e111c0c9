//! Files that a user names.

use crate::failure::{self, Failure};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file that is read: a hundred times the tape of a machine with 64 nodes.
const LARGEST: u64 = 1 << 30;

/// Reads a file, a pipe or a device that ends; standard input by the name `-`.
///
/// # Errors
/// The kernel's, and a file beyond a gibibyte.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    match path == Path::new("-") {
        true => io::stdin().lock().take(LARGEST + 1).read_to_end(&mut content)?,
        false => File::open(path)?.take(LARGEST + 1).read_to_end(&mut content)?,
    };
    if content.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any document of numaio"));
    }
    Ok(content)
}

/// Reads a text.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let content = read_bytes(path).map_err(|error| failure::cannot_read(path, &error))?;
    String::from_utf8(content).map_err(|_| Failure::file(path, "it is no text").hint(failure::DOCUMENTS))
}
