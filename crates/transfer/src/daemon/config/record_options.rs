//! Where and how long a daemon keeps records of finished sessions.

use super::table_reader::{Located, TableReader};
use numaio_mover_linux::files::{Base, Rights};
use std::fs;
use std::path::{Path, PathBuf};

/// Where and how long a daemon keeps records of finished sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// The directory.
    pub directory: Located<PathBuf>,
    /// Number of days after which records are deleted.
    pub keep_days: u32,
}

impl RecordOptions {
    /// Reads the options; `None` without a directory.
    pub(super) fn read(
        fields: &mut TableReader<'_, '_>,
        absolute: fn(&str) -> Result<PathBuf, String>,
    ) -> Option<Self> {
        let directory = fields.parsed("records", absolute);
        if directory.is_none() && !fields.has("records") {
            if let Some(line) = fields.line_of("keep_days") {
                fields.error_at(line, "keep_days: needs records, the directory of the records");
            }
        }
        let keep_days = fields.number("keep_days", 1..=36_500, 90);
        Some(Self { directory: directory?, keep_days })
    }

    /// Checks that the daemon can write to the directory, and that no user can do so in a root with
    /// write access.
    pub(super) fn check<'c>(
        &self,
        mut written: impl Iterator<Item = (&'c str, &'c Path)>,
    ) -> Result<(), String> {
        let path = &self.directory.value;
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = real(path);
        if let Some((name, _)) = written.find(|(_, root)| directory.starts_with(real(root))) {
            return Err(format!("it is in root {name:?}, whose users could change the records"));
        }
        // A missing directory is created.
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        if !existing.is_dir() {
            return Err(format!("{} is not a directory", existing.display()));
        }
        let base = Base::below(existing).map_err(|error| error.to_string())?;
        let may = base.directory().map_or(Ok(()), |directory| directory.check_access(Rights::Write));
        may.map_err(|error| match existing == path {
            true => format!("cannot write to it: {error}"),
            false => format!("cannot create it: cannot write to {}: {error}", existing.display()),
        })
    }
}
