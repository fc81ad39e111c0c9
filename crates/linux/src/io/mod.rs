//! I/O streams between memory and devices.

pub mod tcp;

mod claim;
mod disk;
mod disk_facts;
mod null_device;
mod slices;
mod splitmix;
pub(crate) mod streams;

pub use claim::{Claim, ClaimError};
pub(crate) use disk::run as disk;
pub use disk::{best_method, ring};
pub use disk_facts::{device_number, disk_facts, is_memory, DiskFacts};
pub(crate) use null_device::run as null;

/// Returns the bytes that this process may lock in memory and register with io_uring.
pub fn lockable_bytes() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if rustix::process::geteuid().is_root() {
        u64::MAX
    } else {
        limit.unwrap_or(u64::MAX)
    }
}
