//! Read access to /sys and /proc below a configurable root.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum size of a file in bytes; longer files are rejected to bound memory use.
///
/// The largest expected file is /proc/interrupts with 11 bytes per CPU and line: at 1,024 CPUs the
/// limit allows about 5,900 interrupts. A longer file is an error like any other, and callers
/// continue.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Read access to a machine's /sys and /proc.
///
/// Paths are absolute as on the machine itself (`/sys/devices/system/node/online`). Implementations
/// resolve them, including symbolic links, below their root and reach nothing outside it.
/// `conformance::sysfs` checks the common behavior.
pub trait Sysfs {
    /// Reads a complete file.
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError>;

    /// Lists the names in a directory, sorted bytewise, without `.` and `..`.
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError>;

    /// Returns the path with all symbolic links resolved, absolute below the root; it must exist.
    fn resolve(&self, path: &str) -> Result<String, ReadError>;

    /// Passes each line of a file to `line`, without its end; for files of many megabytes, which
    /// need not be in memory. Lines that precede an error are passed.
    fn lines(&self, path: &str, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let content = self.read(path)?;
        content.split(|byte| *byte == b'\n').for_each(line);
        Ok(())
    }

    /// Returns the name of the file that a link leads to: the last component of [`Self::resolve`].
    ///
    /// An implementation that reads the link only may return the name of a missing file.
    fn link_name(&self, path: &str) -> Result<String, ReadError> {
        let found = self.resolve(path)?;
        Ok(found.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// Holds a directory open, so that paths below it are read with fewer steps; `None` if that
    /// gains nothing. The result reads all other paths too.
    fn hold(&self, directory: &str) -> Option<Box<dyn Sysfs + '_>> {
        let _ = directory;
        None
    }
}

/// A failed read of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ReadError {
    /// The requested path.
    pub path: String,
    /// The reason.
    pub why: ReadErrorKind,
}

/// The reason of a [`ReadError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReadErrorKind {
    /// No such file or directory.
    Absent,
    /// Permission denied.
    Denied,
    /// A directory instead of a file, or a file instead of a directory.
    WrongKind,
    /// Longer than [`MAX_FILE_BYTES`].
    TooLong,
    /// The kernel's error text: some sysfs attributes fail to read (`EINVAL` of a link that is
    /// down).
    Failed(String),
    /// The content does not match its documentation.
    Malformed(String),
}

impl fmt::Display for ReadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no such file or directory"),
            Self::Denied => f.write_str("permission denied"),
            Self::WrongKind => f.write_str("a file instead of a directory, or a directory instead of a file"),
            Self::TooLong => write!(f, "longer than {MAX_FILE_BYTES} bytes"),
            Self::Failed(why) | Self::Malformed(why) => f.write_str(why),
        }
    }
}

impl ReadError {
    /// Creates an error about `path`.
    pub fn new(path: &str, why: ReadErrorKind) -> Self {
        Self { path: path.to_owned(), why }
    }
}

/// Convenience methods of every [`Sysfs`].
pub trait SysfsExt: Sysfs {
    /// Reads a file as text without surrounding white space and NULs; invalid UTF-8 is replaced.
    fn text(&self, path: &str) -> Result<String, ReadError> {
        let bytes = self.read(path)?;
        let mut text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let is_blank = |c: char| c.is_whitespace() || c == '\0';
        text.truncate(text.trim_end_matches(is_blank).len());
        // Removes blanks in place, to avoid copying a large file.
        text.drain(..text.len() - text.trim_start_matches(is_blank).len());
        Ok(text)
    }

    /// Reads a file as text, or returns `None`; for attributes that a kernel may lack.
    fn optional(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }

    /// Reads a file that holds a single value.
    fn value<T: FromStr>(&self, path: &str) -> Result<T, ReadError> {
        let text = self.text(path)?;
        text.parse().map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            ReadError::new(path, ReadErrorKind::Malformed(format!("unexpected content {shown:?}")))
        })
    }

    /// Lists a directory, or returns an empty list if that fails.
    fn names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }

    /// Returns whether the path exists.
    fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }
}

impl<S: Sysfs + ?Sized> SysfsExt for S {}
