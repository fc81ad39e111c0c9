//! Tests that count the threads and open descriptors of their process.
//!
//! They need a process of their own, since ports and rings of other tests would be counted as well,
//! and run one after the other.

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
