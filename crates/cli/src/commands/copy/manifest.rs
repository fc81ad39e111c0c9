//! `--manifest`: what is at the destination in the end, as `b3sum` writes it.

use crate::failure::{self, Failure};
use crate::store::{self, Place};
use numaio_linux::random;
use numaio_mover::wire::There;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A manifest that is written. It has its name when it is whole; a device or a pipe is written to.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    /// Where it is until then; none once it has its name, or if it is no file.
    part: Option<PathBuf>,
    to: BufWriter<File>,
}

impl Manifest {
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        let (path, part, to) = open(path).map_err(|error| failure::unwritten(path, &error))?;
        Ok(Self { path, part, to: BufWriter::new(to) })
    }

    /// Takes back all that was said. What was written to a pipe stays.
    pub fn begin_anew(&mut self) -> Result<(), Failure> {
        let emptied = self.to.flush().and_then(|()| match &self.part {
            Some(_) => self.to.get_ref().set_len(0).and_then(|()| self.to.rewind()),
            None => Ok(()),
        });
        emptied.map_err(|error| failure::unwritten(&self.path, &error))
    }

    pub fn add(&mut self, there: &There) -> Result<(), Failure> {
        let written = self.to.write_all(line(there).as_bytes());
        written.map_err(|error| failure::unwritten(&self.path, &error))
    }

    /// Gives it its name.
    pub fn end(mut self) -> Result<(), Failure> {
        let name = |part: PathBuf| fs::rename(part, &self.path);
        let named = self.to.flush().and_then(|()| self.part.take().map_or(Ok(()), name));
        named.map_err(|error| failure::unwritten(&self.path, &error))
    }
}

impl Drop for Manifest {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Of a transfer that was given up.
            let _ = fs::remove_file(part);
        }
    }
}

/// The name of a manifest without links, and what is written to until it has it, with its name.
fn open(path: &Path) -> io::Result<(PathBuf, Option<PathBuf>, File)> {
    if path == Path::new("-") {
        return Ok((path.to_owned(), None, io::stdout().as_fd().try_clone_to_owned()?.into()));
    }
    let file = match store::place(path)? {
        Place::Stream => return Ok((path.to_owned(), None, OpenOptions::new().write(true).open(path)?)),
        Place::File(file) => file,
    };
    // A name as the sink's own: if it is within the destination, `--delete` leaves it alone.
    let part = file.with_file_name(format!(".numaio-part-{:032x}", u128::from_ne_bytes(random::bytes()?)));
    let to = File::create_new(&part)?;
    Ok((file, Some(part), to))
}

/// As b3sum(1) escapes names: a backslash before the hash says so. What is no text cannot be said.
fn line(there: &There) -> String {
    let hash: String = there.digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = String::from_utf8_lossy(there.name.as_bytes());
    match name.contains(['\\', '\n']) {
        true => format!("\\{hash}  {}\n", name.replace('\\', "\\\\").replace('\n', "\\n")),
        false => format!("{hash}  {name}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::port::Digest;
    use numaio_mover::name::Name;

    #[test]
    fn names_are_escaped_as_b3sum_does() {
        let line =
            |name: &[u8]| line(&There { name: Name::new(name).expect("a name"), digest: Digest([0xab; 32]) });
        let hash = "ab".repeat(32);
        assert_eq!(line(b"a b"), format!("{hash}  a b\n"));
        assert_eq!(line(b"a\\b\nc"), format!("\\{hash}  a\\\\b\\nc\n"));
    }
}
