//! Properties of block devices (`Documentation/ABI/stable/sysfs-block`).

use crate::locate::DeviceNumber;
use crate::sysfs::{Sysfs, SysfsExt};

/// Returns the sysfs path of a block device (`Documentation/ABI/testing/sysfs-dev`), if it is one.
pub fn device_path(root: &dyn Sysfs, device: DeviceNumber) -> Option<String> {
    root.resolve(&format!("/sys/dev/block/{device}")).ok()
}

/// Directory of all block devices, and that of kernels before 2.6.26 and of some recordings, where
/// a partition is only in the directory of its disk.
const CLASS: &str = "/sys/class/block";
const DISKS: &str = "/sys/block";

/// Returns the names of all block devices, partitions included.
pub(crate) fn block_names(root: &dyn Sysfs) -> Vec<String> {
    let all = root.names(CLASS);
    if !all.is_empty() {
        return all;
    }
    let disks = root.names(DISKS);
    let partitions: Vec<String> = disks.iter().flat_map(|disk| partitions(root, disk)).collect();
    disks.into_iter().chain(partitions).collect()
}

fn partitions(root: &dyn Sysfs, disk: &str) -> Vec<String> {
    let mut names = root.names(&format!("{DISKS}/{disk}"));
    names.retain(|name| name.starts_with(disk) && root.exists(&format!("{DISKS}/{disk}/{name}/dev")));
    names
}

/// Returns the sysfs path of the block device with this name of the kernel, such as `sda1`.
pub(crate) fn block_path(root: &dyn Sysfs, name: &str) -> Option<String> {
    let listed = [CLASS, DISKS].iter().find_map(|place| root.resolve(&format!("{place}/{name}")).ok());
    listed.or_else(|| {
        let disks = root.names(DISKS);
        let mut of_name = disks.iter().filter(|disk| name.starts_with(disk.as_str()));
        of_name.find_map(|disk| root.resolve(&format!("{DISKS}/{disk}/{name}")).ok())
    })
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

    #[test]
    fn finds_partitions_without_the_class() {
        let mut tree = crate::tree::Tree::new();
        tree.file("/sys/block/sda/dev", "8:0\n")
            .file("/sys/block/sda/sda1/dev", "8:1\n")
            .file("/sys/block/sda/queue/rotational", "0\n")
            .file("/sys/block/sda/sdata", "x\n");
        assert_eq!(block_names(&tree), ["sda", "sda1"]);
        assert_eq!(block_path(&tree, "sda1").as_deref(), Some("/sys/block/sda/sda1"));
        assert_eq!(block_path(&tree, "sda2"), None);
    }
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
