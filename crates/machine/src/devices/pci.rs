//! PCI functions and their kinds (`Documentation/ABI/testing/sysfs-bus-pci`; class codes of the PCI
//! Code and ID Assignment Specification, as in `include/linux/pci_ids.h`).

use super::device::{DeviceKind, Sriov};
use super::names::{Group, Named, Role};
use super::pci_address::{address, hex, PciAddress};
use crate::sysfs::{Sysfs, SysfsExt};

/// Directory of all PCI functions.
pub const FUNCTIONS: &str = "/sys/bus/pci/devices";

/// Class and subclass of a bridge between PCI buses.
const BRIDGE: u32 = 0x0604;

/// Lists all PCI functions, ascending.
pub(super) fn functions(root: &dyn Sysfs) -> Vec<PciAddress> {
    let mut all: Vec<PciAddress> = root.names(FUNCTIONS).iter().filter_map(|name| address(name)).collect();
    all.sort_unstable();
    all
}

/// Identification of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Card {
    /// Class code, 24 bits.
    pub class: Option<u32>,
    /// Vendor and device id.
    pub ids: Option<(u16, u16)>,
    /// Bound driver.
    pub driver: Option<String>,
    /// Whether `uevent` shows that no driver is bound.
    pub unbound: bool,
}

/// Reads the identification of the function at `path` from `uevent`, or else from single
/// attributes.
pub(super) fn card(root: &dyn Sysfs, path: &str) -> Card {
    let mut card = uevent(root, path);
    if card.class.is_none() {
        let hex = |attribute| hex(root.optional(&format!("{path}/{attribute}"))?.strip_prefix("0x")?);
        let id = |attribute| hex(attribute).and_then(|id| u16::try_from(id).ok());
        card.class = hex("class");
        card.ids = id("vendor").zip(id("device"));
        card.driver = driver(root, path).or(card.driver);
    }
    card
}

/// Reads the identification from `uevent` only; `None` if it has no class.
pub(super) fn card_by_uevent(root: &dyn Sysfs, path: &str) -> Option<Card> {
    Some(uevent(root, path)).filter(|card| card.class.is_some())
}

fn uevent(root: &dyn Sysfs, path: &str) -> Card {
    parse_uevent(&root.optional(&format!("{path}/uevent")).unwrap_or_default())
}

/// `DRIVER=nvme`, `PCI_CLASS=10802`, `PCI_ID=144D:A80A` (`drivers/pci/pci-driver.c`, `pci_uevent`).
fn parse_uevent(text: &str) -> Card {
    let value =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::trim);
    let ids = value("PCI_ID").and_then(|ids| ids.split_once(':'));
    let id = |text| hex(text).and_then(|id| u16::try_from(id).ok());
    let class = value("PCI_CLASS").and_then(hex);
    let driver = value("DRIVER").map(str::to_owned);
    Card {
        unbound: class.is_some() && driver.is_none(),
        class,
        ids: ids.and_then(|(vendor, device)| id(vendor).zip(id(device))),
        driver,
    }
}

/// Returns the name of the driver that is bound to a device, on PCI or not.
pub(super) fn driver(root: &dyn Sysfs, path: &str) -> Option<String> {
    let driver = root.resolve(&format!("{path}/driver")).ok()?;
    driver.rsplit('/').next().map(str::to_owned)
}

/// Returns the kind of a function if it moves data; `group` holds the names below it.
pub(super) fn kind(card: &Card, group: Option<&Group>) -> Option<DeviceKind> {
    use DeviceKind::*;
    let has = |role| group.is_some_and(|group| group.has(role));
    let class = card.class.unwrap_or_default() >> 8;
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
        _ => group.map_or_else(|| unnamed(class, card.driver.as_deref()), by_names),
    }
}

/// Returns the kind of a function with an unspecific class by the names below it.
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

/// Returns the kind of a system peripheral: mostly counters and mailboxes of the processor, some
/// DMA engines.
fn unnamed(class: u32, driver: Option<&str>) -> Option<DeviceKind> {
    const ENGINES: [&str; 2] = ["ioatdma", "idxd"];
    let is_engine = class == 0x0880 && driver.is_some_and(|driver| ENGINES.contains(&driver));
    is_engine.then_some(DeviceKind::Dma)
}

/// Returns the kind of a mass storage function: NVMe drive, virtual disk, or controller.
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

/// Returns whether a class is a bridge between PCI buses.
pub(super) fn is_bridge(class: u32) -> bool {
    class >> 8 == BRIDGE
}

/// Reads SR-IOV of a function; the virtual functions of a physical one are added later.
pub(super) fn sriov(root: &dyn Sysfs, path: &str) -> Option<Sriov> {
    if let Ok(physical) = root.link_name(&format!("{path}/physfn")) {
        return Some(Sriov::Virtual { physical_function: address(&physical)? });
    }
    let total = root.value(&format!("{path}/sriov_totalvfs")).ok().filter(|total| *total > 0)?;
    Some(Sriov::Physical { total, functions: Vec::new() })
}

/// Reads PCI power state and runtime status: `D0, active`.
pub(super) fn power(root: &dyn Sysfs, path: &str) -> Option<String> {
    let states: Vec<String> = ["power_state", "power/runtime_status"]
        .iter()
        .filter_map(|attribute| root.optional(&format!("{path}/{attribute}")))
        .filter(|state| !state.is_empty() && state != "unknown" && state != "unsupported")
        .collect();
    (!states.is_empty()).then(|| states.join(", "))
}

/// Returns the bridges above a function, nearest first, with their canonical paths.
///
/// A root bus in the middle of a path, as with Intel VMD, is the start of the hierarchy.
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
    fn bridges_end_at_the_nearest_root_bus() {
        let path = "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0";
        let upstream = upstream(path);
        assert_eq!(upstream.len(), 1);
        assert_eq!(upstream[0].0.to_string(), "10000:00:02.0");
        assert!(upstream[0].1.ends_with("/10000:00:02.0"));
        assert!(super::upstream("/sys/devices/pci0000:00/0000:00:0e.0").is_empty());
    }

    #[test]
    fn parses_class_ids_and_driver_from_uevent() {
        let text = "DRIVER=virtio-pci\nPCI_CLASS=20000\nPCI_ID=1AF4:1041\nPCI_SUBSYS_ID=1AF4:1041\n";
        let driver = Some("virtio-pci".to_owned());
        let card = Card { class: Some(0x020000), ids: Some((0x1af4, 0x1041)), driver, unbound: false };
        assert_eq!(parse_uevent(text), card);
        assert!(parse_uevent("PCI_CLASS=20000\nPCI_ID=1AF4:1041\n").unbound);
        for text in ["", "PCI_CLASS=\nPCI_ID=1AF4", "PCI_CLASS=xyz\nPCI_ID=1AF41:1041", "PCI_CLASSES=20000"] {
            assert_eq!(parse_uevent(text), Card::default(), "{text}");
        }
    }

    #[test]
    fn kind_depends_on_class_before_names() {
        let kind = |class, driver: Option<&str>| {
            let driver = driver.map(str::to_owned);
            super::kind(&Card { class: Some(class), driver, ..Card::default() }, None)
        };
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
