//! A simulated file system for movers, which loses and reorders changes that were not synced. A
//! disk has a visible and a durable state. Every change is visible immediately, and pending until
//! it is durable. `fsync` of a file makes its content and attributes durable (not its name),
//! `syncfs` everything. A power loss keeps or drops each pending change at random, so that a rename
//! may survive the data before it; a write may survive in part. Killing a process loses no
//! completed operation, and completes running ones in part. No other faults happen: a durable
//! change is never lost, and the file system is never corrupted.
//!
//! [`source_options`] and [`sink_options`] are the options of tests, which run both sides over such
//! disks.

mod disk;
mod operate;
mod sides;
mod state;

pub use disk::{Chance, Disk, Refusals};
pub use sides::{all_of_root, run, run_operations, sink_options, source_options, PRESERVE_ALL};
pub use state::{Inode, Kind, Object};

#[cfg(test)]
mod tests {
    use super::Disk;
    use crate::conformance;

    #[test]
    fn simulated_disk_passes_the_port_conformance_checks() {
        let mut disk = Disk::default();
        conformance::files(conformance::Files {
            run: &mut |operation| disk.run(operation),
            buffer: &|bytes| bytes.to_vec(),
        });
    }

    #[test]
    fn simulated_disk_compresses_like_a_port() {
        let mut disk = Disk::default();
        conformance::compression(conformance::Files {
            run: &mut |operation| disk.run(operation),
            buffer: &|bytes| bytes.to_vec(),
        });
    }
}
