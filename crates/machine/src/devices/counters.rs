//! Traffic counters of devices.

use super::device::{Device, DeviceKind};
use crate::sysfs::{Sysfs, SysfsExt};

/// Sector size in `stat`, independent of the device (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// Bytes that a device moved since boot, by direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MovedBytes {
    /// From the device to memory: read, or received.
    pub read: u64,
    /// From memory to the device: written, or sent.
    pub write: u64,
}

/// Counters of devices at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceCounters(Vec<Option<MovedBytes>>);

impl DeviceCounters {
    /// Reads the counters of all devices.
    pub fn read(root: &dyn Sysfs, devices: &[Device]) -> Self {
        Self(devices.iter().map(|device| moved_bytes(root, device.kind, &device.names)).collect())
    }

    /// Returns the counters of a device by its index; `None` without kernel counters.
    pub fn of(&self, index: usize) -> Option<MovedBytes> {
        self.0.get(index).copied().flatten()
    }
}

impl FromIterator<Option<MovedBytes>> for DeviceCounters {
    fn from_iter<I: IntoIterator<Item = Option<MovedBytes>>>(counters: I) -> Self {
        Self(counters.into_iter().collect())
    }
}

/// Returns the bytes that a device moved in both directions; `None` without kernel counters.
pub fn bytes_moved(root: &dyn Sysfs, kind: DeviceKind, names: &[String]) -> Option<u64> {
    moved_bytes(root, kind, names).map(|moved| moved.read.saturating_add(moved.write))
}

/// Returns the bytes that a device moved by direction; `None` without kernel counters.
///
/// Block devices: `stat` (Documentation/block/stat.rst), sectors read and written. Networks:
/// `statistics/rx_bytes` and `tx_bytes` (Documentation/ABI/testing/sysfs-class-net-statistics).
pub fn moved_bytes(root: &dyn Sysfs, kind: DeviceKind, names: &[String]) -> Option<MovedBytes> {
    match kind {
        DeviceKind::Network => names.iter().find_map(|name| {
            let counter = |counter: &str| {
                root.value::<u64>(&format!("/sys/class/net/{name}/statistics/{counter}")).ok()
            };
            Some(MovedBytes { read: counter("rx_bytes")?, write: counter("tx_bytes")? })
        }),
        DeviceKind::Nvme | DeviceKind::Block => {
            let stat = |name: &String| root.optional(&format!("/sys/class/block/{name}/stat"));
            names.iter().find_map(|name| of_block(&stat(name)?))
        }
        _ => None,
    }
}

/// Returns the milliseconds in which a disk had at least one request; `None` for other devices
/// (Documentation/block/stat.rst, `io_ticks`).
pub fn busy_ms(root: &dyn Sysfs, kind: DeviceKind, names: &[String]) -> Option<u64> {
    if !matches!(kind, DeviceKind::Nvme | DeviceKind::Block) {
        return None;
    }
    let stat = |name: &String| root.optional(&format!("/sys/class/block/{name}/stat"));
    names.iter().find_map(|name| stat(name)?.split_ascii_whitespace().nth(9)?.parse().ok())
}

/// Parses bytes read and written from a block device's `stat`.
fn of_block(stat: &str) -> Option<MovedBytes> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let bytes = |index: usize| Some(fields.get(index)?.saturating_mul(SECTOR));
    Some(MovedBytes { read: bytes(2)?, write: bytes(6)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn reads_sectors_of_both_directions() {
        let stat =
            "    446      216    27056      192       11        3     1000       5  0  232  197 0 0 0 0 6 4";
        assert_eq!(of_block(stat), Some(MovedBytes { read: 27056 * 512, write: 1000 * 512 }));
        assert_eq!((of_block("1 2 3"), of_block("a b c d e f g"), of_block("")), (None, None, None));
    }

    #[test]
    fn reads_busy_time_of_disks() {
        let mut tree = Tree::new();
        tree.file("/sys/class/block/vda/stat", "446 216 27056 192 11 3 1000 5 0 232 197 0 0 0 0 6 4\n");
        let busy = |kind| busy_ms(&tree, kind, &["vda".to_owned()]);
        assert_eq!((busy(DeviceKind::Block), busy(DeviceKind::Network)), (Some(232), None));
    }

    #[test]
    fn sums_sent_and_received_bytes() {
        let mut tree = Tree::new();
        for (counter, bytes) in [("rx_bytes", "700\n"), ("tx_bytes", "77\n")] {
            tree.file(&format!("/sys/class/net/eth0/statistics/{counter}"), bytes);
        }
        let names = ["mlx5_0".to_owned(), "eth0".to_owned()];
        assert_eq!(bytes_moved(&tree, DeviceKind::Network, &names), Some(777));
        let moved = moved_bytes(&tree, DeviceKind::Network, &names);
        assert_eq!(moved, Some(MovedBytes { read: 700, write: 77 }));
        assert_eq!(bytes_moved(&tree, DeviceKind::Gpu, &names), None);
    }
}
