//! Resolution of block devices to the devices below them (`Documentation/ABI/stable/sysfs-block`,
//! `Documentation/ABI/testing/sysfs-block-dm`, `Documentation/admin-guide/md.rst`).

use super::members::Members;
use super::walk::{Position, Resource, Walk};
use super::{fabric, mapper, md};
use crate::storage;
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
        return through_members(walk, at, name, &path, slaves);
    }
    if fabric::follow(walk, at, name, &path) {
        return;
    }
    match walk.device_at(&path) {
        Some(device) => walk.reach(at, device, &path),
        None => without_device(walk, at, name, &path),
    }
}

/// Follows the devices below a RAID, a mapping or another stacked device.
fn through_members(walk: &mut Walk, at: Position, name: &str, path: &str, slaves: Vec<String>) {
    let root = walk.root();
    let known = md::members(root, path, &slaves).or_else(|| mapper::members(root, path, &slaves));
    let stack = known.unwrap_or_else(|| other_stack(walk, name, path, slaves));
    let source = format!("{path}/slaves");
    if !name.starts_with("drbd") {
        return walk.follow_members(at, stack, Resource::Block, &source);
    }
    let at = walk.divide(at, "its peer has a copy, too");
    let what = "Not followed: its peer gets all writes, and sysfs does not have the connection to it.";
    walk.not_followed(at, name, what, "Name the peer as host:NAME, too; drbdsetup show lists it.");
    walk.follow_members(at, stack, Resource::Block, &source);
}

/// Returns the members of a stacked device that is neither a RAID nor a mapping.
fn other_stack(walk: &Walk, name: &str, path: &str, slaves: Vec<String>) -> Members {
    let mode = walk.text(&format!("{path}/bcache/cache_mode"));
    match mode {
        Some(modes) => {
            let mode = modes.split_whitespace().find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'));
            let kind = format!("bcache {}", mode.unwrap_or(&modes));
            Members::unpromised(slaves, &kind, "bcache selects the cache or the backing device by request")
        }
        None => {
            let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
            Members::unpromised(slaves, kind, "numaio does not know how this driver divides I/O")
        }
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
    let backing = format!("{path}/backing_dev");
    if let Some(file) = walk.text(&backing).filter(|file| file.starts_with('/')) {
        let at = walk.divide(at, "idle pages are on the backing device, and others in memory");
        let what = "Not followed: most of its pages are in memory.";
        walk.not_followed(at, name, what, "List the nodes' memory with numaio topology.");
        return walk.follow(at, Resource::Path(file.clone()), &backing, &file);
    }
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let (rule, what, remedy) = match driver {
        "zram" | "ram" | "brd" => (
            "near-memory",
            "It is backed by memory, not by a device.",
            "Name the nodes of its memory instead.",
        ),
        "loop" => ("near-no-device", "No file is attached to it.", "Attach one with losetup."),
        "md" | "dm-" => ("near-no-device", "It has no members.", "Assemble it, or name a disk."),
        "zd" => (
            "near-not-followed",
            "Not followed: it is a ZFS volume, and the kernel does not report its pool.",
            "Name a directory of that pool.",
        ),
        "ublkb" => (
            "near-not-followed",
            "Not followed: a program serves it, and the kernel does not report its device.",
            "Name that device, or the program as pid:N; ublk list names it.",
        ),
        "rbd" => (
            "near-not-followed",
            "Not followed: sysfs does not have the servers of its data.",
            "Name a server of the cluster as host:NAME.",
        ),
        _ => (
            "near-not-followed",
            "Not followed: the kernel reports no device below it.",
            "Name the device that its driver uses, or the server as host:NAME.",
        ),
    };
    walk.dead_end(at, rule, name, what, remedy);
}

/// Returns the block device with a device mapper name (`vg-data`), and the file with that name.
pub(super) fn by_mapper_name(walk: &Walk, name: &str) -> Option<(String, String)> {
    let disks = storage::block_names(walk.root());
    disks.into_iter().filter(|disk| disk.starts_with("dm-")).find_map(|disk| {
        let file = format!("{}/dm/name", walk.block_path(&disk)?);
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
