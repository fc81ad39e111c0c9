//! Resolution of block devices to the devices below them (`Documentation/ABI/stable/sysfs-block`,
//! `Documentation/ABI/testing/sysfs-block-dm`, `Documentation/admin-guide/md.rst`).

use super::fabric;
use super::walk::{Position, Resource, Walk};
use crate::sysfs::SysfsExt;

/// Follows a block device.
pub(super) fn follow(walk: &mut Walk, at: Position, name: &str) {
    let Some(path) = walk.block_path(name) else {
        let what = "This machine has no such block device.";
        return walk.dead_end(at, "near-no-block-device", name, what, "List block devices with lsblk.");
    };
    if let Some(number) = walk.text(&format!("{path}/partition")) {
        if let Some(disk) = path.rsplit('/').nth(1) {
            let disk = Resource::Block(disk.to_owned());
            return walk.follow(at, disk, &format!("{path}/partition"), &format!("partition {number}"));
        }
    }
    let backing = format!("{path}/loop/backing_file");
    if let Some(file) = walk.text(&backing) {
        let path = file.trim_end_matches(" (deleted)").to_owned();
        return walk.follow(at, Resource::Path(path), &backing, &file);
    }
    let slaves = walk.root().names(&format!("{path}/slaves"));
    if !slaves.is_empty() {
        let value = format!("{}: {}", stack(walk, &path), slaves.join(" "));
        let below = slaves.into_iter().map(Resource::Block).collect();
        return walk.follow_all(at, below, &format!("{path}/slaves"), &value);
    }
    if fabric::follow(walk, at, name, &path) {
        return;
    }
    match walk.device_at(&path) {
        Some(device) => walk.reach(at, device, &path),
        None => without_device(walk, at, name, &path),
    }
}

/// Ends at the devices with the name of a disk, or reports why there is none.
///
/// A multipath NVMe disk is not below any of its controllers in sysfs, but shares a name with them.
fn without_device(walk: &mut Walk, at: Position, name: &str, path: &str) {
    let named = walk.devices_named(name);
    if !named.is_empty() {
        return walk.reach_all(at, &named, path);
    }
    let made_of =
        |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_digit()));
    let (rule, what, remedy) = match () {
        () if made_of("zram") || made_of("ram") || made_of("brd") => (
            "near-memory",
            "It is backed by memory, not by a device.",
            "Name the nodes of its memory instead.",
        ),
        () if made_of("loop") => ("near-no-device", "No file is attached to it.", "Attach one with losetup."),
        () if made_of("zd") => (
            "near-no-device",
            "It is a ZFS volume, and the kernel does not report its pool.",
            "Name a directory of that pool.",
        ),
        () => (
            "near-no-device",
            "The kernel reports no device below it.",
            "Name the device that its driver uses, or the server as host:NAME.",
        ),
    };
    walk.dead_end(at, rule, name, what, remedy);
}

/// Returns the kind of a stacked device: kind and name of a mapping, or the level of a RAID.
fn stack(walk: &Walk, path: &str) -> String {
    if let Some(name) = walk.text(&format!("{path}/dm/name")) {
        let uuid = walk.text(&format!("{path}/dm/uuid")).unwrap_or_default();
        let kind = match uuid.split('-').next().unwrap_or_default() {
            "LVM" => "logical volume",
            "CRYPT" => "encrypted",
            "mpath" => "multipath",
            part if part.starts_with("part") => "partition",
            _ => "mapped",
        };
        return format!("{kind} {name}");
    }
    walk.text(&format!("{path}/md/level")).unwrap_or_else(|| "on".to_owned())
}

/// Returns the block device with a device mapper name (`vg-data`), and the file with that name.
pub(super) fn by_mapper_name(walk: &Walk, name: &str) -> Option<(String, String)> {
    let disks = walk.root().names("/sys/class/block");
    disks.into_iter().filter(|disk| disk.starts_with("dm-")).find_map(|disk| {
        let file = format!("/sys/class/block/{disk}/dm/name");
        (walk.text(&file)? == name).then_some((disk, file))
    })
}

/// Returns the kernel's name of a device file below /dev, without a query for its device number.
pub(super) fn by_device_file(walk: &Walk, path: &str) -> Option<String> {
    let name = path.strip_prefix("/dev/")?;
    if let Some(mapped) = name.strip_prefix("mapper/") {
        return by_mapper_name(walk, mapped).map(|(disk, _)| disk);
    }
    // sysfs replaces the slash in names, as in `cciss!c0d0`.
    let name = name.replace('/', "!");
    (!matches!(name.as_str(), "" | "." | "..")).then_some(())?;
    walk.block_path(&name).map(|_| name)
}
