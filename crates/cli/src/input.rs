//! Reading of files that the user names.

use crate::failure::{self, Failure};
use crate::output;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum bytes of a file, a hundred times the size of a tape of a machine with 64 nodes.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file, pipe or device to its end; `-` is standard input.
///
/// # Errors
/// An I/O error, or a file larger than 1 GiB.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    match path == Path::new("-") {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut content)?,
        false => File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut content)?,
    };
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB"));
    }
    output::detail(format_args!("read {}", path.display()));
    Ok(content)
}

/// Reads a UTF-8 text file.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let content = read_bytes(path).map_err(|error| failure::cannot_read(path, &error))?;
    String::from_utf8(content).map_err(|_| Failure::file(path, "not a text file").hint(failure::DOCUMENTS))
}
