//! Tests that count the threads and the open descriptors of their process.
//!
//! They have a test binary of their own, since ports and rings of other tests would be counted too, and run one after
//! the other.

mod growth;
#[path = "../support/port_setup.rs"]
mod port_setup;
mod ring;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this process runs.
fn run_alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}
