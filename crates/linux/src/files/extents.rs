//! Where files lie on their devices (`Documentation/filesystems/fiemap.rst`).

use super::Roots;
use crate::io::device_number;
use numaio_machine::locate::DeviceNumber;
use numaio_machine::storage::{attachment, is_rotating};
use numaio_machine::sysfs::Sysfs;
use rustix::fd::{AsRawFd, OwnedFd};

/// `FS_IOC_FIEMAP`, on x86-64 and aarch64 (include/uapi/linux/fs.h): `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
/// `FIEMAP_EXTENT_UNKNOWN` (include/uapi/linux/fiemap.h): it has no place yet.
const UNKNOWN: u32 = 2;

/// `struct fiemap` with room for one `struct fiemap_extent` (include/uapi/linux/fiemap.h).
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
    /// Whether any root lies on a disk with a head, by what `sysfs` says of the device of its file system.
    pub fn is_rotating(&self, sysfs: &dyn Sysfs) -> bool {
        self.devices().any(|device| is_rotating(sysfs, device))
    }

    /// Which attachments of disks the roots lie on, of those that tell.
    pub fn attachments(&self, sysfs: &dyn Sysfs) -> Vec<u64> {
        self.devices().filter_map(|device| attachment(sysfs, device)).collect()
    }

    fn devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        let device = |root: &OwnedFd| Some(device_number(rustix::fs::fstat(root).ok()?.st_dev));
        self.roots.iter().filter_map(device)
    }
}

/// Where the first extent of a file lies on its device, in bytes; none where the file system cannot tell, there is no data,
/// or it was not written yet.
pub fn address(file: &OwnedFd) -> Option<u64> {
    let mut map = FirstExtent { length: u64::MAX, count: 1, ..FirstExtent::default() };
    // SAFETY: the kernel reads a struct fiemap, and writes it and as many extents as it says there is room for: one.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as libc::Ioctl, &raw mut map) };
    (done == 0 && map.mapped == 1 && map.extent_flags & UNKNOWN == 0).then_some(map.physical)
}
