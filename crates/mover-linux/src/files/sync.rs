//! Making written data durable.

use super::fault::fault;
use super::filesystem::{is_filesystem, CIFS, FUSE, SMB, SMB2};
use super::roots::Roots;
use numaio_mover::port::{Fault, FaultKind};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// File systems on which syncfs(2) is insufficient: the kernel passes writes on without asking the
/// server to store them.
const UNSYNCED: [u32; 4] = [FUSE, SMB, SMB2, CIFS];

impl Roots {
    /// Returns whether syncfs(2) makes all data of the first root durable.
    pub fn supports_syncfs(&self) -> bool {
        !self.roots.first().is_some_and(|root| is_filesystem(root, &UNSYNCED))
    }

    /// Starts tracking write errors, which the final sync reports. Otherwise errors already
    /// reported to another process are missed.
    pub fn track_write_errors(&mut self) {
        self.synced = self.roots.iter().map(|root| open_for_sync(root).ok()).collect();
    }

    pub(super) fn sync(&self, root: u32) -> Result<(), Fault> {
        let early = self.synced.get(root as usize).and_then(Option::as_ref);
        let root = self.roots.get(root as usize).ok_or_else(no_root)?;
        let synced = match early {
            Some(opened) => rustix::fs::syncfs(opened),
            None => open_for_sync(root).and_then(rustix::fs::syncfs),
        };
        synced.map_err(fault("sync file system"))
    }
}

/// Opens a root for syncfs(2), which rejects `O_PATH` descriptors.
fn open_for_sync(root: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(root, ".", flags, Mode::empty())
}

fn no_root() -> Fault {
    Fault::new(FaultKind::Other, "part exceeds the data")
}
