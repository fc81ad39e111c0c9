//! Errors of the store, each with its cause.

use rusqlite::ffi::{self, ErrorCode};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or its directory cannot be opened.
    #[error("cannot open '{}': {error}", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file that is not a store.
    #[error("'{}' is not a fleet store: {why}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A store of a newer numaio.
    #[error(
        "'{}' was written by a newer numaio: version {found} of the store; this one reads {known}",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version of the store.
        found: i64,
        /// The version that this numaio writes.
        known: i64,
    },
    /// Another process uses the store.
    #[error("cannot lock '{}': another process used it for {} s", path.display(), waited.as_secs())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The time limit.
        waited: Duration,
    },
    /// The file system does not lock files.
    #[error("cannot lock '{}': its file system does not support locks", path.display())]
    NoLocks {
        /// The file.
        path: PathBuf,
    },
    /// The file or its directory is not writable.
    #[error("cannot write '{}': the file, its directory or its file system is read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// No space is left.
    #[error("cannot write '{}': no space left on its file system", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A damaged store.
    #[error("'{}' is corrupt: {why}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// Another error of SQLite.
    #[error("cannot use '{}': {error}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: rusqlite::Error,
    },
    /// A file of an export cannot be written.
    #[error("cannot write '{}': {error}", path.display())]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The caller canceled the work.
    #[error("interrupted")]
    Interrupted,
}

impl StoreError {
    /// Converts an error of SQLite.
    pub(super) fn of_sqlite(path: &Path, waited: Duration, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let rusqlite::Error::SqliteFailure(code, message) = &error else {
            // A value of another type than the tables declare, or a missing column.
            return Self::Corrupt { path, why: error.to_string() };
        };
        let why = || message.clone().unwrap_or_else(|| code.to_string());
        match (code.code, code.extended_code) {
            (ErrorCode::NotADatabase, _) => Self::NotAStore { path, why: why() },
            (ErrorCode::DatabaseCorrupt, _) => Self::Corrupt { path, why: why() },
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Self::Locked { path, waited },
            (ErrorCode::ReadOnly, _) => Self::ReadOnly { path },
            (ErrorCode::DiskFull, _) => Self::Full { path },
            (ErrorCode::SystemIoFailure, ffi::SQLITE_IOERR_LOCK | ffi::SQLITE_IOERR_RDLOCK) => {
                Self::NoLocks { path }
            }
            // The file itself was opened: SQLite cannot create its journal beside it.
            (ErrorCode::CannotOpen, _) => Self::ReadOnly { path },
            _ => Self::Sqlite { path, error },
        }
    }
}
