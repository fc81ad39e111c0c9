//! The lock of programs that move other programs.

use crate::failure::{self, Failure};
use crate::store;
use numaio_linux::user_files::lock_file;
use std::fs::{File, TryLockError};

/// Takes the lock of balancers: two would revert each other's moves.
///
/// # Errors
/// Another balancer holds it, or the folder of receipts cannot be written.
pub fn lock() -> Result<Option<File>, Failure> {
    let path = store::receipts_folder()?.join("balance.lock");
    let file = lock_file(&path).map_err(|error| failure::cannot_write(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Failure::new("another numaio balance is running")
            .hint("stop it first, or use --dry-run, which moves nothing")),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
