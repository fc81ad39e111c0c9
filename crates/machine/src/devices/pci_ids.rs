//! Names of PCI functions from the list of the PCI ID Repository that distributions install.

use super::device::{Device, DeviceKind, Sriov};
use crate::sysfs::Sysfs;
use std::collections::BTreeMap;

/// Places of the list, in order of preference: hwdata (Fedora, SUSE, Arch), and pciutils (Debian).
const FILES: [&str; 2] = ["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"];

/// Sets the model of functions without one to the names of vendor and device, if the system has the
/// list. Bridges move no data, and virtual functions are named by their
/// physical function.
///
/// The list is not a property of the machine: it is neither read during discovery nor recorded.
pub fn name_by_pci_ids(root: &dyn Sysfs, devices: &mut [Device]) {
    let is_named_elsewhere = |device: &Device| {
        device.kind == DeviceKind::Bridge || matches!(device.sriov, Some(Sriov::Virtual { .. }))
    };
    let is_unnamed = |device: &Device| device.model.is_empty() && !is_named_elsewhere(device);
    let mut names: BTreeMap<(u16, u16), String> = BTreeMap::new();
    for ids in devices.iter().filter(|device| is_unnamed(device)).filter_map(|device| device.ids) {
        names.insert(ids, String::new());
    }
    if names.is_empty() || !FILES.iter().any(|file| read(root, file, &mut names)) {
        return;
    }
    for device in devices.iter_mut().filter(|device| is_unnamed(device)) {
        let name = device.ids.and_then(|ids| names.get(&ids));
        device.model = name.cloned().unwrap_or_default();
    }
}

/// Reads the names of these ids; returns whether the file exists.
fn read(root: &dyn Sysfs, file: &str, names: &mut BTreeMap<(u16, u16), String>) -> bool {
    let mut vendor: Option<(u16, String)> = None;
    let mut line = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        match line.strip_prefix('\t') {
            // Two tabs precede a subsystem.
            Some(device) => {
                let (Some((vendor, of)), Some((id, name))) = (&vendor, entry(device)) else { return };
                if let Some(found) = names.get_mut(&(*vendor, id)) {
                    *found = format!("{of} {name}");
                }
            }
            // Comments and the classes at the end have no id.
            None => vendor = entry(&line).map(|(id, name)| (id, name.to_owned())),
        }
    };
    root.lines(file, &mut line).is_ok()
}

/// Splits `8086  Intel Corporation`.
fn entry(line: &str) -> Option<(u16, &str)> {
    let (id, name) = line.split_once("  ")?;
    let id = (id.len() == 4).then(|| u16::from_str_radix(id, 16).ok()).flatten()?;
    Some((id, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::read::nothing;
    use crate::tree::Tree;

    fn device(ids: (u16, u16), model: &str) -> Device {
        let blank = nothing(&Tree::new(), DeviceKind::Network, "/sys/devices/pci0000:3a/0000:3b:00.0");
        Device { ids: Some(ids), model: model.to_owned(), ..blank }
    }

    #[test]
    fn functions_without_a_model_are_named() {
        let mut tree = Tree::new();
        let list = "# a comment\n15b3  Mellanox Technologies\n\t101b  MT28908 Family [ConnectX-6]\n\t\t15b3 0007  A card\n\\
                    8086  Intel Corporation\n\t101b  Another\nnot hex  x\n\t1234  Lost\nC 02  Network controller\n\t00  Ethernet\n";
        tree.file("/usr/share/misc/pci.ids", list);
        let mut devices =
            [device((0x15b3, 0x101b), ""), device((0x15b3, 0x101b), "Own"), device((0x8086, 0x1234), "")];
        name_by_pci_ids(&tree, &mut devices);
        let models: Vec<&str> = devices.iter().map(|device| device.model.as_str()).collect();
        assert_eq!(models, ["Mellanox Technologies MT28908 Family [ConnectX-6]", "Own", ""]);
        let mut unlisted = [device((0x15b3, 0x101b), "")];
        name_by_pci_ids(&Tree::new(), &mut unlisted);
        assert_eq!(unlisted[0].model, "");
    }
}
