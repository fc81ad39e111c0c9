//! Physical location of files on their devices (`Documentation/filesystems/fiemap.rst`).

use super::roots::Roots;
use numaio_linux::io::device_number;
use numaio_machine::locate::DeviceNumber;
use numaio_machine::storage::attachment;
use numaio_machine::sysfs::Sysfs;
use rustix::fd::{AsRawFd, OwnedFd};

/// `FS_IOC_FIEMAP`, on x86-64 and aarch64: `_IOWR('f', 11, struct fiemap)`
/// (include/uapi/linux/fs.h).
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
/// `FIEMAP_EXTENT_UNKNOWN` (include/uapi/linux/fiemap.h): not yet allocated.
const UNKNOWN: u32 = 2;

/// `struct fiemap` with space for one `struct fiemap_extent` (include/uapi/linux/fiemap.h).
#[repr(C)]
#[derive(Default)]
struct FirstExtent {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    logical: u64,
    physical: u64,
    extent_length: u64,
    reserved_64: [u64; 2],
    extent_flags: u32,
    reserved_32: [u32; 3],
}

impl Roots {
    /// Returns the attachments of the roots' disks, where known.
    pub fn attachments(&self, sysfs: &dyn Sysfs) -> Vec<u64> {
        self.devices().filter_map(|device| attachment(sysfs, device)).collect()
    }

    fn devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        let device = |root: &OwnedFd| Some(device_number(rustix::fs::fstat(root).ok()?.st_dev));
        self.roots.iter().filter_map(device)
    }
}

/// Returns the offset of a file's first extent on its device, in bytes; none if unknown, empty or
/// not yet written.
pub fn address(file: &OwnedFd) -> Option<u64> {
    let mut map = FirstExtent { length: u64::MAX, count: 1, ..FirstExtent::default() };
    // SAFETY: the kernel reads a struct fiemap, and writes it and at most the one extent it has
    // space for.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as libc::Ioctl, &raw mut map) };
    (done == 0 && map.mapped == 1 && map.extent_flags & UNKNOWN == 0).then_some(map.physical)
}
