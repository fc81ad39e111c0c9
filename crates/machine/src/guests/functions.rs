//! Virtual functions that guests can get (`Documentation/PCI/pci-iov-howto.rst`).

use crate::devices::{Device, PciAddress, Sriov};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::Topology;

/// `IFF_UP` of an interface (`include/uapi/linux/if.h`).
const IFF_UP: u32 = 1;

/// Returns the virtual functions of a device that neither a guest (`used`) nor an interface of the
/// host uses. For a virtual function, those of its physical function.
pub fn free_functions(
    root: &dyn Sysfs,
    topology: &Topology,
    device: &Device,
    used: &[PciAddress],
) -> Vec<PciAddress> {
    let physical = match &device.sriov {
        Some(Sriov::Virtual { physical_function: of }) => {
            topology.devices.iter().find(|device| device.pci == Some(*of))
        }
        _ => Some(device),
    };
    let Some(Sriov::Physical { functions, .. }) = physical.and_then(|device| device.sriov.as_ref()) else {
        return Vec::new();
    };
    let is_free = |address: &&PciAddress| {
        let function = topology.devices.iter().find(|device| device.pci == Some(**address));
        !used.contains(address) && function.is_none_or(|device| !is_up(root, device))
    };
    functions.iter().filter(is_free).copied().collect()
}

/// Returns whether one of the device's interfaces is up.
fn is_up(root: &dyn Sysfs, device: &Device) -> bool {
    let flags = |name: &String| {
        let text = root.optional(&format!("/sys/class/net/{name}/flags"))?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    device.names.iter().filter_map(flags).any(|flags| flags & IFF_UP != 0)
}
