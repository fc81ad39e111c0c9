//! Errors of transfers.
//!
//! [`TransferError`] has the message: what failed, on which object, and why. The `cli` crate adds
//! the hint and the exit status (`cli/src/failure/transfer.rs`), which it chooses by variant and
//! fields.

use numaio_mover::wire::DisplayText;
use numaio_mover_linux::port::net::InvalidPrivateKey;
use numaio_schema::DocumentError;
use std::io;
use std::path::PathBuf;

/// Why a transfer, or an operation on its keys and job records, failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An operation on a file failed.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{path}: {error}")]
    CannotWrite {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// An operation failed whose error needs no context.
    #[error(transparent)]
    Io(io::Error),

    /// A program cannot be started.
    #[error("cannot start {program}: {error}")]
    CannotStart {
        /// Name or path of the program.
        program: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The process on another host exited without a reply; its stderr was relayed.
    #[error("no numaio answers on {host}")]
    NoAnswer {
        /// Name of the host.
        host: String,
        /// Exit status; `None` if the process was killed or has not exited.
        status: Option<i32>,
    },
    /// The process that identifies another host exited without a description of it.
    #[error("cannot identify the system of {host}")]
    UnidentifiedSystem {
        /// Name of the host.
        host: String,
        /// Exit status; `None` if the process was killed or has not exited.
        status: Option<i32>,
    },

    /// Keys have no directory.
    #[error("there is no directory for keys: neither HOME nor XDG_CONFIG_HOME is set")]
    NoKeyDirectory,
    /// The file of a private key does not exist.
    #[error("{path}: {error}")]
    KeyNotFound {
        /// Path of the key.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// Other users can read or write a private key.
    #[error("{path}: other users may access this key: its mode is {mode:03o}")]
    KeyNotPrivate {
        /// Path of the key.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// A key file does not have exactly one line besides comments.
    #[error("{path}: not a key of numaio")]
    NotAKey {
        /// Path of the file.
        path: PathBuf,
    },
    /// The line of a key file is not a private key.
    #[error("{path}: {error}")]
    InvalidKey {
        /// Path of the file.
        path: PathBuf,
        /// Expected format of a key.
        error: InvalidPrivateKey,
    },
    /// A private key has no Ed25519 public key.
    #[error("the key has no public half")]
    NoPublicKey,
    /// A new key would replace an existing file.
    #[error("{path}: the file already exists")]
    KeyExists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A line of the list of known daemons is invalid.
    #[error("{path}: line {line} is not 'HOST:PORT KEY'")]
    InvalidKnownDaemon {
        /// Path of the list.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },

    /// Job records have no directory.
    #[error("no state directory")]
    NoStateDirectory,
    /// No job has this number.
    #[error("job {id} not found")]
    JobNotFound {
        /// Number of the job.
        id: u32,
    },
    /// A file is not a job record.
    #[error("{path}: {}", job_record_text(.error))]
    InvalidJob {
        /// Path of the file.
        path: PathBuf,
        /// Error of the JSON text, which may quote the file.
        error: DocumentError,
    },
    /// The job with the highest possible number exists.
    #[error("{path}: the highest job number is taken")]
    NoJobNumber {
        /// Path of the job with the highest number.
        path: PathBuf,
    },
}

/// Describes an invalid job record without the control characters that the file may contain.
fn job_record_text(error: &DocumentError) -> String {
    DisplayText::new(&format!("not a job record: {error}")).as_str().to_owned()
}
