//! Devices whose location matters.

use crate::devices::{Device, DeviceKind};

/// Vendors of display adapters without data transfers: management controllers (ASPEED, Matrox) and
/// virtual machines (Cirrus, Bochs, Red Hat, VMware, virtio).
const PLAIN_DISPLAYS: [u16; 7] = [0x1a03, 0x102b, 0x1013, 0x1234, 0x1b36, 0x15ad, 0x1af4];

/// Returns whether the location of a device matters: it moves data, and is neither a firmware
/// display nor a controller without disks.
pub(crate) fn matters(device: &Device) -> bool {
    let vendor = device.ids.map(|(vendor, _)| vendor);
    match device.kind {
        DeviceKind::Bridge => false,
        DeviceKind::Gpu => !vendor.is_some_and(|vendor| PLAIN_DISPLAYS.contains(&vendor)),
        DeviceKind::StorageController => !device.names.is_empty(),
        _ => true,
    }
}
