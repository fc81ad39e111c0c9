//! Resolution of GPUs by CUDA index or UUID.

use super::resolved::RULE_UNKNOWN;
use super::walk::{Position, Walk};
use crate::devices::PciAddress;
use crate::sysfs::SysfsExt;

/// GPU directory of NVIDIA's driver (its README, "The /proc File System Interface").
const GPUS: &str = "/proc/driver/nvidia/gpus";

/// Follows a GPU by its index in the order of PCI addresses.
pub(super) fn cuda(walk: &mut Walk, number: u32) {
    let name = format!("cuda:{number}");
    let devices = walk.devices_named(&name);
    let at = walk.start_named(&name);
    match devices.first() {
        None => unknown(walk, at, &name),
        Some(device) => {
            walk.reach(at, *device, "the order of PCI addresses");
            if number == 0 && walk.devices_named("cuda:1").is_empty() {
                return;
            }
            let what = "numaio counts GPUs by PCI address; CUDA does so only with CUDA_DEVICE_ORDER=PCI_BUS_ID, and counts only those in CUDA_VISIBLE_DEVICES.";
            let remedy = "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPU by its UUID (nvidia-smi -L).";
            walk.note(at, "near-cuda-order", &name, what, remedy);
        }
    }
}

/// Follows a GPU by its UUID or a prefix of it, as in `CUDA_VISIBLE_DEVICES`.
pub(super) fn uuid(walk: &mut Walk, uuid: &str) {
    let at = walk.start_named(uuid);
    let has = |line: &&str| line.trim().starts_with(uuid);
    let found = of_driver(walk, "GPU UUID", |value| has(&value));
    match found.as_slice() {
        [] => unknown(walk, at, uuid),
        [(device, file)] => walk.reach(at, *device, file),
        several => {
            let what = format!("The UUIDs of {} GPUs have this prefix.", several.len());
            walk.dead_end(at, "near-ambiguous", uuid, &what, "Give a longer prefix.");
        }
    }
}

/// Returns the GPU of a device file /dev/nvidiaN by its minor number, and the source.
pub(super) fn of_minor(walk: &Walk, minor: u32) -> Option<(usize, String)> {
    of_driver(walk, "Device Minor", |value| value.parse() == Ok(minor)).pop()
}

/// Returns the GPUs with a matching line `name: value` in the driver's files, and those files.
fn of_driver(walk: &Walk, name: &str, is_it: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let of_gpu = |folder: String| {
        let file = format!("{GPUS}/{folder}/information");
        let text = walk.text(&file)?;
        let matching =
            text.lines().filter_map(|line| line.split_once(':')).find(|(known, _)| known.trim() == name);
        matching.filter(|(_, value)| is_it(value.trim()))?;
        let address: PciAddress = folder.parse().ok()?;
        let device = walk.ground.topology.devices.iter().position(|device| device.pci == Some(address))?;
        Some((device, file))
    };
    walk.root().names(GPUS).into_iter().filter_map(of_gpu).collect()
}

fn unknown(walk: &mut Walk, at: Position, name: &str) {
    let cuda = |name: &&String| name.starts_with("cuda:");
    let devices = &walk.ground.topology.devices;
    let known: Vec<&str> =
        devices.iter().filter_map(|device| device.names.iter().find(cuda)).map(String::as_str).collect();
    let remedy = match known.as_slice() {
        [] => "No GPU uses NVIDIA's driver; name other GPUs by PCI address.".to_owned(),
        names => format!("Known GPUs: {}.", names.join(", ")),
    };
    walk.dead_end(at, RULE_UNKNOWN, name, &format!("There is no GPU {name:?}."), &remedy);
}
