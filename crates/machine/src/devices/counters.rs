//! Traffic counters of devices.

use super::device::DeviceKind;
use crate::sysfs::{Sysfs, SysfsExt};

/// Sector size in `stat`, independent of the device (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// Returns the bytes that a device moved in both directions; `None` without kernel counters.
///
/// Block devices: `stat` (Documentation/block/stat.rst), sectors read and written. Networks:
/// `statistics/rx_bytes` and `tx_bytes` (Documentation/ABI/testing/sysfs-class-net-statistics).
pub fn bytes_moved(root: &dyn Sysfs, kind: DeviceKind, names: &[String]) -> Option<u64> {
    match kind {
        DeviceKind::Network => names.iter().find_map(|name| {
            let counter = |counter: &str| {
                root.value::<u64>(&format!("/sys/class/net/{name}/statistics/{counter}")).ok()
            };
            Some(counter("rx_bytes")?.saturating_add(counter("tx_bytes")?))
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
fn of_block(stat: &str) -> Option<u64> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let sectors = fields.get(2)?.saturating_add(*fields.get(6)?);
    Some(sectors.saturating_mul(SECTOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn sums_sectors_of_both_directions() {
        let stat =
            "    446      216    27056      192       11        3     1000       5  0  232  197 0 0 0 0 6 4";
        assert_eq!(of_block(stat), Some((27056 + 1000) * 512));
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
        assert_eq!(bytes_moved(&tree, DeviceKind::Gpu, &names), None);
    }
}
