//! Resolution of files and directories through their file systems.

use super::host::locate_failed;
use super::members::Members;
use super::mounts::{self, Mount};
use super::servers::{self, Servers};
use super::walk::{Position, Resource, Walk};
use super::{block, gpu, names};
use crate::locate::{DeviceNumber, LocateError, LocateExt, PathFacts, PathKind};
use crate::sysfs::SysfsExt;

/// Mounts of this process.
pub(crate) const OWN_MOUNTS: &str = "/proc/self/mountinfo";
/// Major number of NVIDIA's device files, which have no entry in sysfs.
const NVIDIA: u32 = 195;
/// Maximum number of overlay layers; the kernel allows 500 (`OVL_MAX_STACK`).
const MAX_LAYERS: usize = 501;
/// File systems backed by memory.
const IN_MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];

/// Why the shares of the devices of a file system are unknown.
const OF_FILE_SYSTEM: &str = "the file system selects devices for each extent";

/// Follows a path.
pub(super) fn follow(walk: &mut Walk, at: Position, path: &str) {
    match walk.ground.locate.path(path) {
        Ok(facts) => follow_facts(walk, at, path, &facts, OWN_MOUNTS),
        Err(error) => without_facts(walk, at, path, &error),
    }
}

/// Follows a path without attributes: a device file by its name, a missing file by its directory.
fn without_facts(walk: &mut Walk, at: Position, path: &str, error: &LocateError) {
    if let Some(disk) = block::by_device_file(walk, path) {
        return walk.follow(at, Resource::Block(disk), path, "by its name");
    }
    let folder = match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    };
    let absent = matches!(error, LocateError::Absent(_));
    match walk.ground.locate.path(folder) {
        Ok(facts) if absent && facts.kind == PathKind::Directory && !is_device_file(path) => {
            let at = walk.step(at, folder, path, "does not exist; its directory does");
            follow_facts(walk, at, folder, &facts, OWN_MOUNTS);
        }
        _ if absent && is_device_file(path) => names::unknown(walk, at, path),
        _ => locate_failed(walk, at, path, error),
    }
}

/// Returns whether a path would be a device file: below /dev only some mounts hold other files.
fn is_device_file(path: &str) -> bool {
    let holds_files = |folder: &str| path.starts_with(folder);
    path.starts_with("/dev/")
        && !["/dev/shm/", "/dev/hugepages/", "/dev/mqueue/"].into_iter().any(holds_files)
}

/// Follows the object at a path, with the mounts of the process that uses it.
pub(super) fn follow_facts(walk: &mut Walk, at: Position, path: &str, facts: &PathFacts, mountinfo: &str) {
    match (facts.kind, facts.rdev) {
        (PathKind::Block, Some(number)) => {
            if !by_number(walk, at, number) {
                no_device(walk, at, path, "No driver provides the block device of this file.");
            }
        }
        (PathKind::Character, Some(number)) => character(walk, at, path, number),
        (PathKind::File | PathKind::Directory, _) => on_mount(walk, at, facts, mountinfo),
        _ => no_device(walk, at, path, "It is a pipe, a socket or similar, with its data in memory."),
    }
}

fn no_device(walk: &mut Walk, at: Position, subject: &str, what: &str) {
    walk.dead_end(at, "near-no-device", subject, what, "Name the device that stores its data.");
}

/// Returns the canonical path of a device by its number (`Documentation/ABI/testing/sysfs-dev`).
fn numbered(walk: &Walk, kind: &str, number: DeviceNumber) -> Option<String> {
    walk.root().resolve(&format!("/sys/dev/{kind}/{number}")).ok()
}

/// Returns the name of the block device with a number.
fn block_of(walk: &Walk, number: DeviceNumber) -> Option<String> {
    numbered(walk, "block", number)?.rsplit('/').next().map(str::to_owned)
}

/// Follows the block device with a number, if it exists.
fn by_number(walk: &mut Walk, at: Position, number: DeviceNumber) -> bool {
    let Some(name) = block_of(walk, number) else { return false };
    let value = name.clone();
    walk.follow(at, Resource::Block(name), &format!("/sys/dev/block/{number}"), &value);
    true
}

/// Follows a character device: a GPU, an RDMA device, an NVMe controller, a DAX device.
fn character(walk: &mut Walk, at: Position, path: &str, number: DeviceNumber) {
    if let Some((device, source)) =
        (number.major == NVIDIA).then(|| gpu::of_minor(walk, number.minor)).flatten()
    {
        return walk.reach(at, device, &source);
    }
    let place = numbered(walk, "char", number);
    match place.and_then(|place| walk.device_at(&place)) {
        Some(device) => walk.reach(at, device, &format!("/sys/dev/char/{number}")),
        None => no_device(walk, at, path, "It is a virtual device file of the kernel without a device."),
    }
}

fn on_mount(walk: &mut Walk, at: Position, facts: &PathFacts, mountinfo: &str) {
    let mounts = mounts::parse(&walk.root().optional(mountinfo).unwrap_or_default());
    let Some(mount) = mounts::holding(&mounts, facts) else {
        // Another process's mounts may be hidden; the device number can still identify the device.
        if !by_number(walk, at, facts.dev) {
            no_device(walk, at, &facts.canonical, "Its file system is not among the known mounts.");
        }
        return;
    };
    let what = format!("{} on {}", mount.kind, mount.source);
    let at = walk.step(at, &what, mountinfo, &format!("{} {} {}", mount.on, mount.root, mount.place));
    if by_number(walk, at, mount.on) {
        return;
    }
    match mount.kind.as_str() {
        "btrfs" => btrfs(walk, at, mount),
        "zfs" => zfs(walk, at, mount),
        "bcachefs" => {
            through_disks(walk, at, mount, mount.source.split(':').map(str::to_owned).collect(), mountinfo)
        }
        "overlay" => overlay(walk, at, mount, facts),
        kind if IN_MEMORY.contains(&kind) => {
            let what = format!("{kind} is backed by memory, not by a device.");
            let remedy = "List the nodes' memory with numaio topology.";
            walk.dead_end(at, "near-memory", &mount.place, &what, remedy);
        }
        _ => by_source(walk, at, mount, mountinfo),
    }
}

/// Follows a network file system by its servers, or another file system by its mount source.
fn by_source(walk: &mut Walk, at: Position, mount: &Mount, mountinfo: &str) {
    let servers = servers::of(walk, mount);
    if !servers.names.is_empty() {
        return through_servers(walk, at, mount, servers, mountinfo);
    }
    if mount.source.starts_with('/') && !mount.source.starts_with("//") {
        return through_disks(walk, at, mount, vec![mount.source.clone()], mountinfo);
    }
    let (what, remedy) = match mount.kind.as_str() {
        "virtiofs" | "9p" => (
            "Not followed: the host of this virtual machine stores its files, and the guest cannot see the device.",
            "Name the device on the host.",
        ),
        kind if kind.starts_with("fuse") => (
            "Not followed: a program serves it, and the kernel does not report its device.",
            "Name that device, or the program as pid:N.",
        ),
        _ => (
            "Not followed: the kernel reports neither a device nor a server of this file system.",
            "Name a device, or a server as host:NAME.",
        ),
    };
    walk.dead_end(at, "near-not-followed", &mount.place, what, remedy);
}

/// Follows the servers of a network file system.
fn through_servers(walk: &mut Walk, at: Position, mount: &Mount, servers: Servers, mountinfo: &str) {
    let mut at = at;
    if !servers.hold_data {
        at = walk.divide(at, "other servers can have its data");
        let what = "Not followed: the mount names servers of its metadata, and others can have its data.";
        walk.not_followed(at, &mount.place, what, "Name a server of its data as host:NAME.");
    }
    let why = "each file is on some of the servers";
    walk.follow_members(at, Members::unpromised(servers.names, "servers", why), Resource::Host, mountinfo);
}

/// Follows device files, or the mounted file itself.
fn through_disks(walk: &mut Walk, at: Position, mount: &Mount, paths: Vec<String>, mountinfo: &str) {
    walk.follow_members(
        at,
        Members::unpromised(paths, &mount.kind, OF_FILE_SYSTEM),
        Resource::Path,
        mountinfo,
    );
}

/// Follows all devices of the btrfs file system with the mounted device (`fs/btrfs/sysfs.c`).
fn btrfs(walk: &mut Walk, at: Position, mount: &Mount) {
    const PLACE: &str = "/sys/fs/btrfs";
    let number = walk.ground.locate.path(&mount.source).ok().and_then(|facts| facts.rdev);
    let mounted = number.and_then(|number| block_of(walk, number));
    let Some(mounted) = mounted.or_else(|| block::by_device_file(walk, &mount.source)) else {
        return no_device(walk, at, &mount.place, "The mounted device does not exist.");
    };
    let folders = walk.root().names(PLACE).into_iter().map(|id| format!("{PLACE}/{id}/devices"));
    let all = folders.map(|folder| (walk.root().names(&folder), folder));
    match all.into_iter().find(|(names, _)| names.contains(&mounted)) {
        Some((names, folder)) => {
            let stack = Members::unpromised(names, "btrfs", OF_FILE_SYSTEM);
            walk.follow_members(at, stack, Resource::Block, &folder);
        }
        None => walk.follow(at, Resource::Block(mounted), &mount.source, "the mounted device"),
    }
}

/// Follows the devices of a ZFS pool by the disk labels in udev's database; the kernel has no such
/// list.
fn zfs(walk: &mut Walk, at: Position, mount: &Mount) {
    const LABELS: &str = "/run/udev/data";
    let pool = mount.source.split('/').next().unwrap_or_default();
    let is_member = |name: &String| {
        let text = walk.text(&format!("{LABELS}/{name}")).unwrap_or_default();
        let has = |line: &str| text.lines().any(|known| known == line);
        name.starts_with('b') && has("E:ID_FS_TYPE=zfs_member") && has(&format!("E:ID_FS_LABEL={pool}"))
    };
    let names = walk.root().names(LABELS).into_iter().filter(is_member);
    let paths: Vec<String> = names
        .filter_map(|name| walk.root().resolve(&format!("/sys/dev/block/{}", &name[1..])).ok())
        .collect();
    // udev also records the label for the disk of a labeled partition: keep the partition only.
    let inner = |path: &&String| !paths.iter().any(|other| other.starts_with(&format!("{path}/")));
    let disks: Vec<String> =
        paths.iter().filter(inner).filter_map(|path| path.rsplit('/').next().map(str::to_owned)).collect();
    if disks.is_empty() {
        let what = format!("Neither the kernel nor udev lists the devices of ZFS pool {pool}.");
        return walk.dead_end(
            at,
            "near-no-device",
            &mount.place,
            &what,
            "Name the devices that zpool status lists.",
        );
    }
    let stack = Members::unpromised(disks, &format!("zfs_member {pool}"), OF_FILE_SYSTEM);
    walk.follow_members(at, stack, Resource::Block, LABELS);
}

/// Follows the layers of an overlay (`Documentation/filesystems/overlayfs.rst`): the layer that
/// holds a file, or for a directory all layers, each file system once.
fn overlay(walk: &mut Walk, at: Position, mount: &Mount, facts: &PathFacts) {
    let rest = mounts::below(&facts.canonical, &mount.place).unwrap_or_default();
    let inner = format!("{}{rest}", mount.root.trim_end_matches('/'));
    let mut holders: Vec<(String, PathFacts)> = Vec::new();
    for layer in layers(&mount.options) {
        let path = if facts.kind == PathKind::File { format!("{layer}{inner}") } else { layer };
        let Ok(found) = walk.ground.locate.path(&path) else { continue };
        if !holders.iter().any(|(_, known)| (known.dev, known.mount) == (found.dev, found.mount)) {
            holders.push((path, found));
        }
        if facts.kind == PathKind::File {
            break;
        }
    }
    if holders.is_empty() {
        let what = "The overlay's layers are not visible to this process, as in a container.";
        return walk.dead_end(at, "near-layers-hidden", &mount.place, what, "Resolve the path on the host.");
    }
    let paths = holders.into_iter().map(|(path, _)| path);
    let stack = Members::unpromised(paths, "layers", "each file is in one of the layers");
    walk.follow_members(at, stack, Resource::Path, "mount options");
}

/// Returns the directories of an overlay, the upper first; colons in lower ones may be escaped.
fn layers(options: &str) -> Vec<String> {
    let mut upper = Vec::new();
    let mut lower = Vec::new();
    for (name, value) in options.split(',').filter_map(|option| option.split_once('=')) {
        match name {
            "upperdir" => upper.push(value.to_owned()),
            "lowerdir" => lower.extend(split_escaped(value)),
            "lowerdir+" | "datadir+" => lower.push(value.to_owned()),
            _ => {}
        }
    }
    upper.into_iter().chain(lower).filter(|layer| !layer.is_empty()).take(MAX_LAYERS).collect()
}

fn split_escaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            (':', _) => parts.push(String::new()),
            ('\\', Some(last)) => last.extend(chars.next()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_overlay_layers_in_both_forms() {
        assert_eq!(layers("rw,lowerdir=/a:/b\\:c,upperdir=/u,workdir=/w"), ["/u", "/a", "/b:c"]);
        assert_eq!(layers("ro,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d"), ["/a:b", "/c", "/d"]);
        assert!(layers("").is_empty());
    }
}
