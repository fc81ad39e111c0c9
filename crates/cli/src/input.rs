//! Reading of files that the user names.

use crate::failure::{self, Failure};
use crate::output;
use numaio_linux::user_files::{self, read_limited};
use std::io;
use std::path::Path;

/// Maximum bytes of a file, a hundred times the size of a tape of a machine with 64 nodes.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file, pipe or device to its end; `-` is standard input.
///
/// # Errors
/// An I/O error, or a file larger than 1 GiB.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let content = match path == Path::new("-") {
        true => read_limited(io::stdin().lock(), MAX_BYTES)?,
        false => user_files::read_named(path, MAX_BYTES)?,
    };
    output::detail(format_args!("read {}", path.display()));
    Ok(content)
}

/// Reads a UTF-8 text file that the user named.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    text(path, read_bytes(path))
}

/// Reads a document that numaio saved, which is a regular file.
pub fn read_saved(path: &Path) -> Result<String, Failure> {
    text(path, user_files::read_stored(path, MAX_BYTES))
}

fn text(path: &Path, content: io::Result<Vec<u8>>) -> Result<String, Failure> {
    let content = content.map_err(|error| failure::cannot_read(path, &error))?;
    String::from_utf8(content).map_err(|_| Failure::file(path, "not a text file").hint(failure::DOCUMENTS))
}
