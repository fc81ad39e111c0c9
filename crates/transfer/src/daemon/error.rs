//! Errors of the daemon and its sessions.

use super::config::ConfigError;
use crate::TransferError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a daemon, or a session of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration file of a daemon cannot be read.
    #[error("{path}: {error}")]
    UnreadableConfig {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The configuration file of a daemon is not text.
    #[error("{path}: the file is not UTF-8 text")]
    ConfigIsNotText {
        /// Path of the file.
        path: PathBuf,
    },
    /// The configuration file of a daemon has errors.
    #[error("{path}: {}", count(.errors.len(), "error"))]
    InvalidConfig {
        /// Path of the file.
        path: PathBuf,
        /// All errors.
        errors: Vec<ConfigError>,
    },
    /// A daemon was started as root without the permission of its configuration.
    #[error("a daemon does not run as root")]
    IsRoot,
    /// A daemon may open fewer files than its limits of connections need.
    #[error("the limit of open files is {limit}, and the configured limits need {needed}")]
    TooFewFiles {
        /// Open files that the process may have.
        limit: u64,
        /// Open files under the limits of the configuration.
        needed: u64,
    },
    /// A daemon cannot listen on an address.
    #[error("cannot listen on {address}: {error}")]
    CannotListen {
        /// The address.
        address: SocketAddr,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A daemon cannot create the socket for programs of its host.
    #[error("cannot listen at {path}: {error}")]
    CannotServeLocally {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A session process was not started by a daemon.
    #[error("only numaio serve starts sessions: {0}")]
    NotASession(io::Error),
    /// A session got an invalid configuration from its daemon.
    #[error("the daemon's configuration has errors")]
    InvalidSessionConfig,
    /// The channel to a client cannot be opened.
    #[error("cannot open a session: {0}")]
    NoSessionChannel(String),
    /// A session refused its client.
    #[error("refused: {0}")]
    ClientRefused(String),
    /// An operation failed whose error needs no context.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A transfer of a session failed, or its key cannot be read.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// Formats a number of things.
pub fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
