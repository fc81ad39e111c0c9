//! PCI functions and what they are (`Documentation/ABI/testing/sysfs-bus-pci`; class codes of the PCI Code
//! and ID Assignment Specification, as in `include/linux/pci_ids.h`).

use super::names::{Group, Named, Role};
use super::{DeviceKind, PciAddress, Sriov};
use crate::sysfs::{Sysfs, SysfsExt};

/// Where the kernel lists all PCI functions.
pub(super) const FUNCTIONS: &str = "/sys/bus/pci/devices";

/// Class and subclass of a bridge between PCI buses.
const BRIDGE: u32 = 0x0604;

/// An address as sysfs writes it, and nothing else: SCSI addresses and port services look alike.
pub(super) fn address(text: &str) -> Option<PciAddress> {
    let looks_right =
        text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
    if looks_right {
        text.parse().ok()
    } else {
        None
    }
}

/// All PCI functions that the kernel lists, ascending.
pub(super) fn functions(root: &dyn Sysfs) -> Vec<PciAddress> {
    let mut all: Vec<PciAddress> = root.names(FUNCTIONS).iter().filter_map(|name| address(name)).collect();
    all.sort_unstable();
    all
}

/// A hexadecimal attribute: `0x010802`.
pub(super) fn hex(root: &dyn Sysfs, path: &str, attribute: &str) -> Option<u32> {
    let text = root.optional(&format!("{path}/{attribute}"))?;
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Vendor and device.
pub(super) fn ids(root: &dyn Sysfs, path: &str) -> Option<(u16, u16)> {
    let id = |attribute| hex(root, path, attribute).and_then(|id| u16::try_from(id).ok());
    Some((id("vendor")?, id("device")?))
}

/// Name of the driver that is bound to a device: where the link leads, or what `uevent` says in a recorded
/// machine that has no drivers.
pub(super) fn driver(root: &dyn Sysfs, path: &str) -> Option<String> {
    if let Ok(driver) = root.resolve(&format!("{path}/driver")) {
        return driver.rsplit('/').next().map(str::to_owned);
    }
    let text = root.optional(&format!("{path}/uevent"))?;
    text.lines().find_map(|line| line.strip_prefix("DRIVER=")).map(|name| name.trim().to_owned())
}

/// What a function with this class is, if it moves data; `group` is what is named below it, and `driver`
/// is only asked where the class leaves it open.
pub(super) fn kind(
    class: Option<u32>,
    group: Option<&Group>,
    driver: impl FnOnce() -> Option<String>,
) -> Option<DeviceKind> {
    use DeviceKind::*;
    let has = |role| group.is_some_and(|group| group.has(role));
    let class = class.unwrap_or_default() >> 8;
    match (class >> 8, class) {
        (_, BRIDGE) => None,
        (_, 0x0108) => Some(Nvme),
        (0x01, _) => Some(storage(group)),
        (0x02, _) | (_, 0x0c06) if has(Role::Net) => Some(Network),
        (_, 0x0207 | 0x0c06) => Some(Rdma),
        (0x02, _) => Some(if has(Role::Rdma) { Rdma } else { Network }),
        (0x03, _) => Some(Gpu),
        (0x12, _) | (_, 0x0b40) => Some(Accelerator),
        (_, 0x0801) => Some(Dma),
        (_, 0x0c04) => Some(StorageController),
        _ => group.map_or_else(|| unnamed(class, driver), by_names),
    }
}

/// What a function of a class that says nothing is, by what is named below it.
fn by_names(group: &Group) -> Option<DeviceKind> {
    use DeviceKind::*;
    let kinds = [
        (Role::Net, Network),
        (Role::NvmeController, Nvme),
        (Role::Disk, Block),
        (Role::DiskBehind, StorageController),
        (Role::Accelerator, Accelerator),
        (Role::Rdma, Rdma),
        (Role::Render, Gpu),
        (Role::Dsa, Dma),
        (Role::DmaChannel, Dma),
    ];
    kinds.into_iter().find(|(role, _)| group.has(*role)).map(|(_, kind)| kind)
}

/// System peripherals are mostly counters and mailboxes of the processor, and a few DMA engines.
fn unnamed(class: u32, driver: impl FnOnce() -> Option<String>) -> Option<DeviceKind> {
    const ENGINES: [&str; 2] = ["ioatdma", "idxd"];
    let is_engine = class == 0x0880 && driver().is_some_and(|driver| ENGINES.contains(&driver.as_str()));
    is_engine.then_some(DeviceKind::Dma)
}

/// Mass storage: an NVMe drive, a virtual disk that is the function itself, or a controller.
fn storage(group: Option<&Group>) -> DeviceKind {
    let Some(group) = group else { return DeviceKind::StorageController };
    let is_virtio_disk = |named: &Named| named.role == Role::Disk && named.below.starts_with("/virtio");
    let is_disk = group.names.iter().any(is_virtio_disk);
    match () {
        () if group.has(Role::NvmeController) => DeviceKind::Nvme,
        () if is_disk => DeviceKind::Block,
        () => DeviceKind::StorageController,
    }
}

/// Whether a class is that of a bridge between PCI buses.
pub(super) fn is_bridge(class: u32) -> bool {
    class >> 8 == BRIDGE
}

/// SR-IOV as the function itself tells it; the virtual functions of a physical one are found from theirs.
pub(super) fn sriov(root: &dyn Sysfs, path: &str) -> Option<Sriov> {
    if let Ok(physical) = root.resolve(&format!("{path}/physfn")) {
        return Some(Sriov::Virtual { of: address(physical.rsplit('/').next()?)? });
    }
    let total = root.value(&format!("{path}/sriov_totalvfs")).ok().filter(|total| *total > 0)?;
    Some(Sriov::Physical { total, functions: Vec::new() })
}

/// PCI power state and runtime status: `D0, active`.
pub(super) fn power(root: &dyn Sysfs, path: &str) -> Option<String> {
    let states: Vec<String> = ["power_state", "power/runtime_status"]
        .iter()
        .filter_map(|attribute| root.optional(&format!("{path}/{attribute}")))
        .filter(|state| !state.is_empty() && state != "unknown" && state != "unsupported")
        .collect();
    (!states.is_empty()).then(|| states.join(", "))
}

/// Bridges on the way to a function, nearest first, each with its canonical path. A root bus in the middle
/// of a path, as behind Intel VMD, is where the way begins.
pub(super) fn upstream(path: &str) -> Vec<(PciAddress, &str)> {
    let mut bridges = Vec::new();
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if part.starts_with("pci") {
            bridges.clear();
        }
        if let Some(address) = address(part) {
            bridges.push((address, &path[..end]));
        }
        end += 1;
    }
    bridges.pop();
    bridges.reverse();
    bridges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_addresses() {
        assert_eq!(address("10000:e1:00.7").map(|address| address.domain), Some(0x10000));
        for text in
            ["0:0:0:0", "0000:00:01.0:pcie01", "pci0000:00", "0000:00:20.0", "+000:00:01.0", "1-1:1.0"]
        {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn the_way_up_ends_at_the_nearest_root_bus() {
        let path = "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0";
        let upstream = upstream(path);
        assert_eq!(upstream.len(), 1);
        assert_eq!(upstream[0].0.to_string(), "10000:00:02.0");
        assert!(upstream[0].1.ends_with("/10000:00:02.0"));
        assert!(super::upstream("/sys/devices/pci0000:00/0000:00:0e.0").is_empty());
    }

    #[test]
    fn classes_tell_the_kind_before_names_do() {
        let kind = |class, driver: Option<&str>| super::kind(Some(class), None, || driver.map(str::to_owned));
        assert_eq!(kind(0x010802, None), Some(DeviceKind::Nvme));
        assert_eq!(kind(0x0c0400, None), Some(DeviceKind::StorageController));
        assert_eq!(kind(0x020700, None), Some(DeviceKind::Rdma));
        assert_eq!(kind(0x120000, None), Some(DeviceKind::Accelerator));
        assert_eq!(kind(0x088000, Some("snbep_uncore")), None);
        assert_eq!(kind(0x088000, Some("idxd")), Some(DeviceKind::Dma));
        assert_eq!(kind(0x060400, None), None);
        assert_eq!(kind(0x0c0330, None), None);
    }
}
