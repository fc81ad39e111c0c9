//! The storage devices of a side's directories: each gets worker groups of its own.

use super::placer::Placer;
use numaio_linux::Root;
use numaio_machine::locate::DeviceNumber;
use numaio_machine::storage::is_rotational;
use numaio_schema::DeviceDescription;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum number of devices with groups of their own; further ones share those of the last.
const MAX_DEVICES: usize = 8;
/// Maximum factor by which the default number of threads grows while threads wait for storage.
pub const THREAD_GROWTH: usize = 4;

/// A storage device and the directories that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageDevice {
    /// Name, as `numaio devices` shows it; a device number if it is not described.
    pub name: String,
    /// Number of threads; `None` if the device is not described.
    pub threads: Option<usize>,
    /// Whether more threads would be slower, or are not configured.
    pub is_fixed: bool,
    /// Indices of its directories, ascending.
    pub roots: Vec<usize>,
}

impl StorageDevice {
    /// Returns the initial and the maximum number of threads, given a configured number or the
    /// default for a device that is not described.
    pub fn thread_counts(&self, configured: Option<usize>, default: usize) -> (usize, usize) {
        if let Some(threads) = configured {
            return (threads, threads);
        }
        let threads = self.threads.unwrap_or(default).max(1);
        (threads, if self.is_fixed { threads } else { THREAD_GROWTH * threads })
    }
}

/// Returns the devices of directories that are on several of them, in the order of the first
/// directory of each; none if a single one holds them all.
pub fn storage_devices(paths: &[&Path], placer: &dyn Placer) -> Vec<StorageDevice> {
    let numbers: Vec<Option<DeviceNumber>> = paths.iter().map(|path| device_number(path)).collect();
    // File systems are cheaper to compare than devices.
    if numbers.iter().all(|number| Some(number) == numbers.first()) {
        return Vec::new();
    }
    let described = placer.storage_devices(paths);
    let of_path = |(index, number): (usize, &Option<DeviceNumber>)| {
        device(described.get(index).map_or(&[][..], Vec::as_slice), *number)
    };
    let devices = grouped(numbers.iter().enumerate().map(of_path));
    if devices.len() > 1 {
        devices
    } else {
        Vec::new()
    }
}

/// Creates the device of one directory, by the descriptions of all devices that hold it.
fn device(described: &[DeviceDescription], number: Option<DeviceNumber>) -> StorageDevice {
    let mut names: Vec<&str> = described.iter().map(|device| device.name.as_str()).collect();
    names.sort_unstable();
    let name = match &names[..] {
        [] => number.map_or("unknown".to_owned(), |number| number.to_string()),
        names => names.join("+"),
    };
    let threads = described.iter().map(|device| device.read_threads.value as usize).sum();
    StorageDevice {
        name,
        threads: Some(threads).filter(|threads| *threads > 0),
        is_fixed: !described.is_empty() && described.iter().all(DeviceDescription::has_fixed_threads),
        roots: Vec::new(),
    }
}

fn device_number(path: &Path) -> Option<DeviceNumber> {
    Some(numaio_linux::io::device_number(fs::metadata(path).ok()?.dev()))
}

/// Returns whether the disk below each path is rotational, by sysfs.
pub fn rotational(paths: &[&Path]) -> Vec<bool> {
    let root = Root::live();
    let is_rotational = |path: &&Path| {
        root.as_ref().ok().zip(device_number(path)).is_some_and(|(root, device)| is_rotational(root, device))
    };
    paths.iter().map(is_rotational).collect()
}

/// Combines equal devices, each with the indices of its directories.
fn grouped(of_paths: impl Iterator<Item = StorageDevice>) -> Vec<StorageDevice> {
    let mut devices: Vec<StorageDevice> = Vec::new();
    for (root, device) in of_paths.enumerate() {
        let known = devices.iter().position(|known| known.name == device.name);
        let known = known.or_else(|| (devices.len() == MAX_DEVICES).then_some(MAX_DEVICES - 1));
        match known {
            Some(known) => devices[known].roots.push(root),
            None => devices.push(StorageDevice { roots: vec![root], ..device }),
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> StorageDevice {
        StorageDevice { name: name.to_owned(), threads: Some(2), is_fixed: false, roots: Vec::new() }
    }

    #[test]
    fn directories_are_grouped_by_device() {
        let of = |names: &[&str]| -> Vec<(String, Vec<usize>)> {
            let devices = grouped(names.iter().map(|name| named(name)));
            devices.into_iter().map(|device| (device.name, device.roots)).collect()
        };
        assert_eq!(of(&["sdb", "sda", "sdb"]), [("sdb".to_owned(), vec![0, 2]), ("sda".to_owned(), vec![1])]);
        let many: Vec<String> = (0..MAX_DEVICES + 2).map(|index| index.to_string()).collect();
        let many = of(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.len(), MAX_DEVICES);
        assert_eq!(many[MAX_DEVICES - 1].1, [MAX_DEVICES - 1, MAX_DEVICES, MAX_DEVICES + 1]);
    }

    #[test]
    fn directories_of_one_file_system_are_not_split() {
        use crate::placement::KernelPlacer;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(storage_devices(&[here, &here.join("src")], &KernelPlacer).is_empty());
        let devices = storage_devices(&[here, Path::new("/proc"), here], &KernelPlacer);
        assert_eq!(devices.iter().map(|device| &device.roots[..]).collect::<Vec<_>>(), [&[0, 2][..], &[1]]);
        assert!(devices.iter().all(|device| device.threads.is_none()), "{devices:?}");
    }

    #[test]
    fn rotational_disk_keeps_its_threads() {
        let disk = StorageDevice { threads: Some(1), is_fixed: true, ..named("sda") };
        assert_eq!(disk.thread_counts(None, 4), (1, 1));
        assert_eq!(disk.thread_counts(Some(3), 4), (3, 3));
        assert_eq!(named("nvme0n1").thread_counts(None, 4), (2, 8));
        assert_eq!(StorageDevice { threads: None, ..named("8:1") }.thread_counts(None, 4), (4, 16));
    }
}
