//! To see a machine: files of /sys and /proc below a root that is a value.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest file that is read, in bytes; longer ones are refused, so that no file can fill our memory.
///
/// The longest that is looked for is /proc/interrupts, 11 bytes a CPU in each line: 1,024 CPUs have room for
/// some 5,900 interrupts. Beyond that it is refused as any other file, and readers go on without it.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Read access to a machine's /sys and /proc.
///
/// Paths are absolute as on the machine itself (`/sys/devices/system/node/online`) and are resolved below
/// the root of the implementation, symbolic links included; nothing outside that root is reached.
/// Implementations agree on what `conformance::sysfs` checks.
pub trait Sysfs {
    /// The whole content of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError>;

    /// Names in a directory, sorted bytewise, without `.` and `..`.
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError>;

    /// The path with every symbolic link followed, again absolute below the root; the path must exist.
    fn resolve(&self, path: &str) -> Result<String, ReadError>;
}

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ReadError {
    /// The path asked for.
    pub path: String,
    /// What stood in the way.
    pub why: ReadErrorKind,
}

/// What stood in the way of reading a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadErrorKind {
    /// No such file or directory.
    Absent,
    /// No permission.
    Denied,
    /// A directory where a file was wanted, or the reverse.
    WrongKind,
    /// Longer than [`MAX_FILE_BYTES`].
    TooLong,
    /// The kernel's own words: sysfs attributes may fail to read (`EINVAL` of a link that is down).
    Failed(String),
    /// It was read, but is not what its documentation says.
    Malformed(String),
}

impl fmt::Display for ReadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no such file or directory"),
            Self::Denied => f.write_str("permission denied"),
            Self::WrongKind => f.write_str("a file where a directory was wanted, or the reverse"),
            Self::TooLong => write!(f, "longer than {MAX_FILE_BYTES} bytes"),
            Self::Failed(why) | Self::Malformed(why) => f.write_str(why),
        }
    }
}

impl ReadError {
    /// An error about `path`.
    pub fn new(path: &str, why: ReadErrorKind) -> Self {
        Self { path: path.to_owned(), why }
    }
}

/// Conveniences over every [`Sysfs`].
pub trait SysfsExt: Sysfs {
    /// A file as text without the white space and NULs at its ends; bytes that are no UTF-8 are replaced.
    fn text(&self, path: &str) -> Result<String, ReadError> {
        let bytes = self.read(path)?;
        let mut text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let is_blank = |c: char| c.is_whitespace() || c == '\0';
        text.truncate(text.trim_end_matches(is_blank).len());
        // A large file is not copied for a few blanks.
        text.drain(..text.len() - text.trim_start_matches(is_blank).len());
        Ok(text)
    }

    /// A file as text, or nothing if it cannot be read. For attributes that a kernel may lack.
    fn optional(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }

    /// A file that holds one value and nothing else.
    fn value<T: FromStr>(&self, path: &str) -> Result<T, ReadError> {
        let text = self.text(path)?;
        text.parse().map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            ReadError::new(path, ReadErrorKind::Malformed(format!("unexpected content {shown:?}")))
        })
    }

    /// Names in a directory, or none if it cannot be listed.
    fn names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }

    /// Whether the path exists.
    fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }
}

impl<S: Sysfs + ?Sized> SysfsExt for S {}
