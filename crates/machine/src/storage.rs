//! What kind of storage a block device is (`Documentation/ABI/stable/sysfs-block`).

use crate::locate::DeviceNumber;
use crate::sysfs::{Sysfs, SysfsExt};

/// Where a block device is (`Documentation/ABI/testing/sysfs-dev`); none for what is no block device.
pub fn device_path(root: &dyn Sysfs, device: DeviceNumber) -> Option<String> {
    root.resolve(&format!("/sys/dev/block/{device}")).ok()
}

/// A number that the queue of a block device tells. A partition has the queue of its disk.
pub fn queue_attribute(root: &dyn Sysfs, device: DeviceNumber, attribute: &str) -> Option<u64> {
    of_disk(root, device, &format!("queue/{attribute}"))
}

/// Which attachment of a disk this is since the machine started (`diskseq`): one that went and came back has another. None
/// before Linux 5.15, and for what is no block device.
pub fn attachment(root: &dyn Sysfs, device: DeviceNumber) -> Option<u64> {
    of_disk(root, device, "diskseq")
}

fn of_disk(root: &dyn Sysfs, device: DeviceNumber, attribute: &str) -> Option<u64> {
    let device_path = device_path(root, device)?;
    let disk = device_path.rsplit_once('/').map_or("", |(disk, _)| disk);
    [&device_path, disk].iter().find_map(|device_path| root.value(&format!("{device_path}/{attribute}")).ok())
}

/// Whether a block device says that it has a head which must be moved (`queue/rotational`). What is made of others by the
/// device mapper says what they are. False for what is no block device.
pub fn is_rotational(root: &dyn Sysfs, device: DeviceNumber) -> bool {
    queue_attribute(root, device, "rotational") == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn a_disk_or_the_disk_of_a_partition_tells() {
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
        let says = |major, minor| is_rotational(&tree, DeviceNumber { major, minor });
        assert_eq!([says(8, 0), says(8, 1), says(259, 0), says(259, 1)], [true, true, false, false]);
        // tmpfs, btrfs and the like have numbers of no block device.
        assert!(!says(0, 35));
    }
}
