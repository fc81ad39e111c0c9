//! Properties of block devices (`Documentation/ABI/stable/sysfs-block`).

use crate::locate::DeviceNumber;
use crate::sysfs::{Sysfs, SysfsExt};

/// Returns the sysfs path of a block device (`Documentation/ABI/testing/sysfs-dev`), if it is one.
pub fn device_path(root: &dyn Sysfs, device: DeviceNumber) -> Option<String> {
    root.resolve(&format!("/sys/dev/block/{device}")).ok()
}

/// Reads a numeric attribute of a block device's queue; a partition uses the queue of its disk.
pub fn queue_attribute(root: &dyn Sysfs, device: DeviceNumber, attribute: &str) -> Option<u64> {
    of_disk(root, device, &format!("queue/{attribute}"))
}

/// Returns the sequence number of a disk's attachment since boot (`diskseq`).
///
/// A disk that was detached and attached again has a new number. `None` before Linux 5.15, and for
/// other than block devices.
pub fn attachment(root: &dyn Sysfs, device: DeviceNumber) -> Option<u64> {
    of_disk(root, device, "diskseq")
}

fn of_disk(root: &dyn Sysfs, device: DeviceNumber, attribute: &str) -> Option<u64> {
    let device_path = device_path(root, device)?;
    let disk = device_path.rsplit_once('/').map_or("", |(disk, _)| disk);
    [&device_path, disk].iter().find_map(|device_path| root.value(&format!("{device_path}/{attribute}")).ok())
}

/// Returns whether a block device is rotational (`queue/rotational`).
///
/// Device mapper devices report the value of their members. False for other than block devices.
pub fn is_rotational(root: &dyn Sysfs, device: DeviceNumber) -> bool {
    queue_attribute(root, device, "rotational") == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn reads_attributes_of_the_disk_of_a_partition() {
        let mut tree = Tree::new();
        for (number, path) in [
            ("8:0", "/sys/devices/pci0000:00/ata1/block/sda"),
            ("8:1", "/sys/devices/pci0000:00/ata1/block/sda/sda1"),
            ("259:0", "/sys/devices/pci0000:00/nvme/nvme0n1"),
            ("259:1", "/sys/devices/pci0000:00/nvme/nvme0n1/nvme0n1p1"),
        ] {
            tree.link(&format!("/sys/dev/block/{number}"), path).dir(path);
        }
        tree.file("/sys/devices/pci0000:00/ata1/block/sda/queue/rotational", "1\n");
        tree.file("/sys/devices/pci0000:00/nvme/nvme0n1/queue/rotational", "0\n");
        tree.file("/sys/devices/pci0000:00/ata1/block/sda/diskseq", "7\n");
        let attached = |major, minor| attachment(&tree, DeviceNumber { major, minor });
        assert_eq!([attached(8, 0), attached(8, 1), attached(259, 1)], [Some(7), Some(7), None]);
        let rotational = |major, minor| is_rotational(&tree, DeviceNumber { major, minor });
        assert_eq!(
            [rotational(8, 0), rotational(8, 1), rotational(259, 0), rotational(259, 1)],
            [true, true, false, false]
        );
        // File systems such as tmpfs and btrfs have numbers without a block device.
        assert!(!rotational(0, 35));
    }
}
