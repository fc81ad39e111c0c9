//! Storage and network devices that carry transfers: disks, volumes, file systems and interfaces.
//!
//! [`Topology`](crate::topology::Topology) lists functions of a bus, such as a controller of many
//! disks. The inventory lists what a program reads, writes and sends through.

mod block;
mod file_systems;
mod interfaces;

pub use block::BlockDevice;
pub use file_systems::{FileSystem, Media};
pub use interfaces::{interface_names, LinkState, NetworkInterface};

use crate::locate::PathFacts;
use crate::near::ResolveContext;

/// The disks, interfaces and file systems of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Disks and volumes, without partitions, by name.
    pub disks: Vec<BlockDevice>,
    /// Interfaces of devices, and bonds, by name.
    pub interfaces: Vec<NetworkInterface>,
    /// Mounted file systems with data, without those of the kernel such as /proc.
    pub file_systems: Vec<FileSystem>,
}

impl Inventory {
    /// Reads the inventory; unreadable files leave values out.
    pub fn read(context: ResolveContext<'_>) -> Self {
        let mut disks = block::read(context);
        let file_systems = file_systems::read(context, &disks);
        let is_mounted = |name: &str| {
            file_systems.iter().any(
                |found| matches!(&found.media, Media::Disks(disks) if disks.iter().any(|disk| disk == name)),
            )
        };
        disks.retain(|disk| !disk.is_hidden_unless_mounted || is_mounted(&disk.name));
        Self { disks, interfaces: interfaces::read(context), file_systems }
    }

    /// Returns the file system of an object.
    pub fn file_system_of(&self, facts: &PathFacts) -> Option<&FileSystem> {
        let by_id =
            self.file_systems.iter().find(|found| facts.mount.is_some_and(|id| found.ids.contains(&id)));
        by_id.or_else(|| self.file_systems.iter().find(|found| found.on == facts.dev))
    }

    /// Returns the file system of a path by the longest mount point above it.
    pub fn file_system_above(&self, path: &str) -> Option<&FileSystem> {
        file_systems::above(&self.file_systems, path)
    }
}
