//! A daemon's configuration file.

use super::config::{Config, ConfigError};
use super::error::{count, DaemonError};
use super::log::Log;
use numaio_linux::user_files::{read_named, read_trusted};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum length of a file: a session gets its text in one message.
const MAX_BYTES: u64 = 32 << 20;

/// Reads a file up to a number of bytes.
type ReadFile = fn(&Path, u64) -> io::Result<Vec<u8>>;

/// A configuration with its text, which the daemon passes on to its sessions.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// Text of the file.
    pub(super) text: String,
}

impl LoadedConfig {
    /// Reads a file that only root or this user can write, and checks its roots and its key.
    ///
    /// # Errors
    /// The file cannot be read, or all errors in it.
    pub fn read(path: &Path) -> Result<Self, DaemonError> {
        Self::read_by(path, read_trusted)
    }

    /// Checks a file of any user as [`read`](Self::read) does: the check may run as root.
    ///
    /// # Errors
    /// The file cannot be read, or all errors in it.
    pub fn read_to_check(path: &Path) -> Result<Self, DaemonError> {
        Self::read_by(path, read_named)
    }

    fn read_by(path: &Path, read: ReadFile) -> Result<Self, DaemonError> {
        let (loaded, mut errors) = Self::parse(path, read)?;
        errors.extend(loaded.config.check_roots());
        errors.extend(loaded.config.check_key());
        errors.extend(loaded.config.check_records());
        loaded.ok_without(path, errors)
    }

    /// Reads a file for its text alone: neither its key nor its roots are opened.
    ///
    /// # Errors
    /// The file cannot be read, or all errors in its text.
    pub fn read_text(path: &Path) -> Result<Self, DaemonError> {
        let (loaded, errors) = Self::parse(path, read_named)?;
        loaded.ok_without(path, errors)
    }

    /// Reads the directory of records from a file, as a user without access to the key and the
    /// roots.
    ///
    /// # Errors
    /// The file cannot be read, or all errors in its text.
    pub fn records_directory(path: &Path) -> Result<Option<PathBuf>, DaemonError> {
        Ok(Self::read_text(path)?.config.records.map(|records| records.directory.value))
    }

    /// Reads a file for a running daemon and checks its key.
    ///
    /// An unusable root does not reject the file: otherwise users who were removed from it would
    /// keep access.
    pub(super) fn reload(path: &Path) -> Result<Self, DaemonError> {
        let (loaded, mut errors) = Self::parse(path, read_trusted)?;
        errors.extend(loaded.config.check_key());
        loaded.ok_without(path, errors)
    }

    /// Logs the unusable roots and their number; blocks while a root does not respond.
    pub(super) fn check_roots(&self, log: &Log, path: &Path) {
        let bad = self.config.check_roots();
        log.config_errors(path, &bad);
        if !bad.is_empty() {
            let (path, bad) = (path.display(), count(bad.len(), "root"));
            log.error(&format!("{bad} cannot be used as {path} configures"));
        }
    }

    /// Returns the configuration, or fails if there are errors.
    fn ok_without(self, path: &Path, mut errors: Vec<ConfigError>) -> Result<Self, DaemonError> {
        errors.sort();
        match errors.is_empty() {
            true => Ok(self),
            false => Err(DaemonError::InvalidConfig { path: path.to_owned(), errors }),
        }
    }

    /// Parses a file as far as possible, and returns the errors of its text.
    fn parse(path: &Path, read: ReadFile) -> Result<(Self, Vec<ConfigError>), DaemonError> {
        let text = read(path, MAX_BYTES)
            .map_err(|error| DaemonError::UnreadableConfig { path: path.to_owned(), error })?;
        let text =
            String::from_utf8(text).map_err(|_| DaemonError::ConfigIsNotText { path: path.to_owned() })?;
        let (config, errors) = Config::parse_recoverable(&text);
        Ok((Self { config, text }, errors))
    }
}
