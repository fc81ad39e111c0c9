//! `--manifest`: hashes of the files at the destination after a transfer, in the format of `b3sum`.

use crate::failure::{self, Failure};
use crate::output;
use numaio_linux::user_files::{Durable, Output, Replacement};
use numaio_mover::wire::ManifestEntry;
use numaio_mover_linux::files;
use numaio_transfer::line::sanitize;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A manifest that is being written. A regular file gets its name when it is complete.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    /// A regular file, which gets its name when it is complete.
    replacement: Option<Replacement>,
    /// Whether it goes to a terminal, for which names are sanitized.
    is_terminal: bool,
    /// Whether lines were lost, which has been reported.
    is_incomplete: bool,
    to: BufWriter<File>,
}

impl Manifest {
    /// Whether a path means standard output.
    pub fn is_output(path: &Path) -> bool {
        path == Path::new("-")
    }

    /// Checks that the manifest can be written, and does not mix with `--json`.
    pub fn check(path: &Path, json: bool) -> Result<(), Failure> {
        if json && Self::is_output(path) {
            return Err(Failure::usage("events and the manifest cannot both go to standard output")
                .hint("name a file for --manifest, or omit --json"));
        }
        output::check(path)
    }

    /// Starts a manifest at a path.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        let (replacement, to) = open(path).map_err(|error| failure::cannot_write(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            replacement,
            is_terminal: to.is_terminal(),
            is_incomplete: false,
            to: BufWriter::new(to),
        })
    }

    /// Discards all lines, except those written to a pipe.
    pub fn restart(&mut self) -> Result<(), Failure> {
        let emptied = self.to.flush().and_then(|()| match &self.replacement {
            Some(_) => self.to.get_ref().set_len(0).and_then(|()| self.to.rewind()),
            None => Ok(()),
        });
        self.keep_result(emptied)
    }

    /// Adds the line of a file.
    pub fn add(&mut self, there: &ManifestEntry) -> Result<(), Failure> {
        let written = self.to.write_all(line(there, self.is_terminal).as_bytes());
        self.keep_result(written)
    }

    fn keep_result(&mut self, done: io::Result<()>) -> Result<(), Failure> {
        self.is_incomplete |= done.is_err();
        done.map_err(|error| failure::cannot_write(&self.path, &error))
    }

    /// Renames the file to its name, unless lines were lost: an incomplete manifest would look
    /// complete.
    pub fn end(mut self) -> Result<(), Failure> {
        if self.is_incomplete {
            return Ok(());
        }
        // `files::flush` has reported errors of a quota or a server.
        let name = |replacement: Replacement| replacement.publish(Durable(false));
        let written = self.to.flush().and_then(|()| files::flush(self.to.get_ref()));
        let named = written.and_then(|()| self.replacement.take().map_or(Ok(()), name));
        named.map_err(|error| failure::cannot_write(&self.path, &error))
    }
}

/// Opens the output: returns the replacement of a regular file, and the open file.
fn open(path: &Path) -> io::Result<(Option<Replacement>, File)> {
    if Manifest::is_output(path) {
        return Ok((None, io::stdout().as_fd().try_clone_to_owned()?.into()));
    }
    // A name that the sink uses itself, so that `--delete` does not remove it in the destination.
    match Output::open(path, Some(files::temporary_name()?.into()))? {
        Output::Stream(stream) => Ok((None, stream)),
        Output::Replacement(replacement) => {
            let to = replacement.file().try_clone()?;
            Ok((Some(replacement), to))
        }
    }
}

/// Formats a line as b3sum(1) does: a backslash before the hash marks an escaped name. Non-UTF-8
/// names are lossy.
fn line(there: &ManifestEntry, is_terminal: bool) -> String {
    let hash: String = there.digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = String::from_utf8_lossy(there.name.as_bytes());
    let (mark, name) = match name.contains(['\\', '\n', '\r']) {
        true => ("\\", name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")),
        false => ("", name.into_owned()),
    };
    let name = if is_terminal { for_terminal(&name) } else { name };
    format!("{mark}{hash}  {name}\n")
}

/// Sanitizes a name in parts, because longer texts would be truncated.
fn for_terminal(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    chars.chunks(256).map(|some| sanitize(&some.iter().collect::<String>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::name::Name;
    use numaio_mover::port::Digest;
    use std::fs;

    #[test]
    fn escapes_names_as_b3sum_does() {
        let line = |name: &[u8]| {
            line(&ManifestEntry { name: Name::new(name).expect("a name"), digest: Digest([0xab; 32]) }, false)
        };
        let hash = "ab".repeat(32);
        assert_eq!(line(b"a b"), format!("{hash}  a b\n"));
        assert_eq!(line(b"a\\b\nc"), format!("\\{hash}  a\\\\b\\nc\n"));
        assert_eq!(line(b"Icon\r"), format!("\\{hash}  Icon\\r\n"));
    }

    /// A file system that is full for a moment, simulated by a read-only file.
    #[test]
    fn incomplete_manifest_is_removed() {
        let folder = std::env::temp_dir().join(format!("numaio-manifest-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("sums");
        let there = ManifestEntry { name: Name::new(&b"f"[..]).expect("a name"), digest: Digest([0; 32]) };
        for is_full in [false, true] {
            let mut manifest = Manifest::begin(&path).expect("a manifest");
            manifest.add(&there).expect("written");
            if is_full {
                manifest.to = BufWriter::with_capacity(0, File::open(&path).expect("a written file"));
                manifest.add(&there).expect_err("a read-only file");
                manifest.to = BufWriter::new(File::create(folder.join("other")).expect("a file"));
            }
            manifest.add(&there).expect("written");
            manifest.end().expect("the failure has been reported");
            assert_eq!(fs::read_to_string(&path).expect("a manifest").lines().count(), 2);
        }
        let left = fs::read_dir(&folder).expect("a folder").count();
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(left, 2, "the temporary file is removed");
    }

    #[test]
    fn names_are_complete_and_sanitized_for_a_terminal() {
        let line = |name: &[u8], is_terminal| {
            let there = ManifestEntry { name: Name::new(name).expect("a name"), digest: Digest([0; 32]) };
            line(&there, is_terminal).split_off(64)
        };
        let evil = b"a\x1b]0;title\x07\xc2\x9b2Jz";
        assert_eq!(line(evil, true), "  a\u{fffd}]0;title\u{fffd}\u{fffd}2Jz\n");
        assert_eq!(line(evil, false).as_bytes(), [&b"  "[..], evil, b"\n"].concat());
        // The longest names, of four-byte characters and of characters that become longer.
        for one in ["\u{1f4be}", "\u{1b}"] {
            let name = vec![one.repeat(240 / one.len()); 16].join("/");
            let expected = format!("  {}\n", name.replace('\u{1b}', "\u{fffd}"));
            assert_eq!(line(name.as_bytes(), true), expected);
        }
    }
}
