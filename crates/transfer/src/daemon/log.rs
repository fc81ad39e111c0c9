//! The log of a daemon and its sessions, on standard error.

use super::config::ConfigError;
use super::error::DaemonError;
use crate::ssh::stderr_relay::LineSink;
use std::path::Path;

/// The log.
#[derive(Clone)]
pub struct Log {
    /// Receives the lines.
    sink: LineSink,
    /// Whether only errors of the configuration are logged.
    is_quiet: bool,
}

impl Log {
    /// A log that goes to a sink, which writes each line in one call, because several processes
    /// write to standard error.
    pub fn new(sink: LineSink, is_quiet: bool) -> Self {
        Self { sink, is_quiet }
    }

    /// Whether only errors of the configuration are logged.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Logs a line.
    pub fn line(&self, text: &str) {
        if !self.is_quiet {
            (self.sink)(&format!("numaio: {text}"));
        }
    }

    /// Logs all errors of a configuration file, if that is the error.
    pub fn errors_of(&self, error: &DaemonError) {
        if let DaemonError::InvalidConfig { path, errors } = error {
            self.config_errors(path, errors);
        }
    }

    /// Logs the errors of a configuration file.
    pub(super) fn config_errors(&self, path: &Path, errors: &[ConfigError]) {
        let path = path.display();
        errors.iter().for_each(|ConfigError { line, text }| (self.sink)(&format!("{path}:{line}: {text}")));
    }
}
