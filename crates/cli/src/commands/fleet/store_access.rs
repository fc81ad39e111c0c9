//! Opening of the store, and its errors with their hints and exit statuses.

use crate::failure::{Failure, INTERRUPTED};
use numaio_fleet::store::{FleetStore, StoreError};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Time limit of waiting for another process that uses the store.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Opens a store to read.
pub fn open(path: &Path) -> Result<FleetStore, Failure> {
    FleetStore::open(path, LOCK_WAIT).map_err(Failure::from)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(&error);
        match error {
            StoreError::CannotOpen { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                failure.hint("numaio fleet add DB DOCUMENT... creates a store in an existing directory")
            }
            StoreError::NotAStore { .. } => {
                failure.hint("name the store first, then documents: numaio fleet add DB DOCUMENT...")
            }
            StoreError::NewerVersion { .. } => {
                failure.hint("use the newer numaio, or add the documents to a new store")
            }
            StoreError::Locked { .. } => {
                failure.hint("only one process writes a store at a time: wait for it and repeat")
            }
            StoreError::NoLocks { .. } => failure.hint(
                "mount the file system with locks (Lustre: -o flock; NFS: without nolock), or copy the store to a \
                 local disk",
            ),
            StoreError::ReadOnly { .. } => {
                failure.hint("copy the store to a writable directory; SQLite writes a journal beside the file")
            }
            StoreError::Full { .. } => failure.hint("free space there; completed batches are stored"),
            StoreError::Corrupt { .. } => failure.hint(
                "add the documents to a new store, or restore a copy; sqlite3 DB .recover saves what is readable",
            ),
            StoreError::Interrupted => Self { code: INTERRUPTED, ..failure }
                .hint("completed batches are stored; repeat the command to add the rest"),
            _ => failure,
        }
    }
}
