//! Files and directories, by the file systems that hold them.

use super::host::locate_failed;
use super::mounts::{self, Mount};
use super::walk::{Position, Resource, Walk};
use super::{block, gpu, names, servers};
use crate::locate::{DeviceNumber, LocateError, LocateExt, PathFacts, PathKind};
use crate::sysfs::SysfsExt;

/// Mounts of this process itself.
const OWN_MOUNTS: &str = "/proc/self/mountinfo";
/// Major number of NVIDIA's device files, which have no entry in sysfs.
const NVIDIA: u32 = 195;
/// Most layers of an overlay; the kernel takes 500 (`OVL_MAX_STACK`).
const MAX_LAYERS: usize = 501;
/// File systems that lie in memory.
const IN_MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];

/// Follows a path.
pub(super) fn follow(walk: &mut Walk, at: Position, path: &str) {
    match walk.ground.locate.path(path) {
        Ok(facts) => follow_facts(walk, at, path, &facts, OWN_MOUNTS),
        Err(error) => without_facts(walk, at, path, &error),
    }
}

/// A path of which the kernel tells nothing: a device file is known by its name all the same, and a file that is
/// still to be written lies where its directory does.
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
            let at = walk.step(at, folder, path, "it is not there; its directory is");
            follow_facts(walk, at, folder, &facts, OWN_MOUNTS);
        }
        _ if absent && is_device_file(path) => names::unknown(walk, at, path),
        _ => locate_failed(walk, at, path, error),
    }
}

/// Whether a path would be a device file: below /dev only that directory's own file systems hold others.
fn is_device_file(path: &str) -> bool {
    let holds_files = |folder: &str| path.starts_with(folder);
    path.starts_with("/dev/")
        && !["/dev/shm/", "/dev/hugepages/", "/dev/mqueue/"].into_iter().any(holds_files)
}

/// Follows what is at a path, with the mounts of the process that sees it.
pub(super) fn follow_facts(walk: &mut Walk, at: Position, path: &str, facts: &PathFacts, mountinfo: &str) {
    match (facts.kind, facts.is) {
        (PathKind::Block, Some(number)) => {
            if !by_number(walk, at, number) {
                no_device(walk, at, path, "No driver has the block device of this file.");
            }
        }
        (PathKind::Character, Some(number)) => character(walk, at, path, number),
        (PathKind::File | PathKind::Directory, _) => on_mount(walk, at, facts, mountinfo),
        _ => no_device(walk, at, path, "It is a pipe, a socket or the like, and its data is in memory."),
    }
}

fn no_device(walk: &mut Walk, at: Position, subject: &str, what: &str) {
    walk.dead_end(at, "near-no-device", subject, what, "Name the device its data comes from.");
}

/// The canonical path of a device by its number (`Documentation/ABI/testing/sysfs-dev`).
fn numbered(walk: &Walk, kind: &str, number: DeviceNumber) -> Option<String> {
    walk.root().resolve(&format!("/sys/dev/{kind}/{number}")).ok()
}

/// The block device of a number.
fn block_of(walk: &Walk, number: DeviceNumber) -> Option<String> {
    numbered(walk, "block", number)?.rsplit('/').next().map(str::to_owned)
}

/// Goes on to the block device of a number, if there is one.
fn by_number(walk: &mut Walk, at: Position, number: DeviceNumber) -> bool {
    let Some(name) = block_of(walk, number) else { return false };
    let value = name.clone();
    walk.follow(at, Resource::Block(name), &format!("/sys/dev/block/{number}"), &value);
    true
}

/// A character device: of a GPU, an RDMA device, an NVMe controller, a DAX device.
fn character(walk: &mut Walk, at: Position, path: &str, number: DeviceNumber) {
    if let Some((device, source)) =
        (number.major == NVIDIA).then(|| gpu::of_minor(walk, number.minor)).flatten()
    {
        return walk.reach(at, device, &source);
    }
    let place = numbered(walk, "char", number);
    match place.and_then(|place| walk.device_at(&place)) {
        Some(device) => walk.reach(at, device, &format!("/sys/dev/char/{number}")),
        None => no_device(
            walk,
            at,
            path,
            "It is a device file of the kernel's own, and no device stands behind it.",
        ),
    }
}

fn on_mount(walk: &mut Walk, at: Position, facts: &PathFacts, mountinfo: &str) {
    let mounts = mounts::parse(&walk.root().optional(mountinfo).unwrap_or_default());
    let Some(mount) = mounts::holding(&mounts, facts) else {
        // A process's mounts may be hidden from us; the number of the device tells where it is one.
        if !by_number(walk, at, facts.on) {
            no_device(walk, at, &facts.canonical, "Its file system is none of the mounts that are known.");
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
            let what = format!("{kind} lies in memory: no device stands below it.");
            walk.dead_end(at, "near-memory", &mount.place, &what, "numaio topology shows the nodes' memory.");
        }
        _ => by_source(walk, at, mount, mountinfo),
    }
}

/// A network file system by its servers, another by what it says is mounted.
fn by_source(walk: &mut Walk, at: Position, mount: &Mount, mountinfo: &str) {
    let servers = servers::of(walk, mount);
    if !servers.is_empty() {
        let value = format!("servers: {}", servers.join(" "));
        return walk.follow_all(at, servers.into_iter().map(Resource::Host).collect(), mountinfo, &value);
    }
    if mount.source.starts_with('/') && !mount.source.starts_with("//") {
        return through_disks(walk, at, mount, vec![mount.source.clone()], mountinfo);
    }
    let (what, remedy) = match mount.kind.as_str() {
        "virtiofs" | "9p" => (
            "The host of this virtual machine holds its files, and the guest cannot see on which device.",
            "Name the device on the host.",
        ),
        kind if kind.starts_with("fuse") => (
            "A program serves it, and the kernel does not tell from which device.",
            "Name that device, or the program as pid:N.",
        ),
        _ => (
            "The kernel tells no device of this file system, nor a server.",
            "Name a device, or a server as host:NAME.",
        ),
    };
    walk.dead_end(at, "near-no-device", &mount.place, what, remedy);
}

/// Through device files or, where a file itself is mounted, through that file.
fn through_disks(walk: &mut Walk, at: Position, mount: &Mount, paths: Vec<String>, mountinfo: &str) {
    walk.follow_all(at, paths.into_iter().map(Resource::Path).collect(), mountinfo, &mount.source);
}

/// All devices of a btrfs (`fs/btrfs/sysfs.c`), which is the one that has the mounted device.
fn btrfs(walk: &mut Walk, at: Position, mount: &Mount) {
    const PLACE: &str = "/sys/fs/btrfs";
    let number = walk.ground.locate.path(&mount.source).ok().and_then(|facts| facts.is);
    let mounted = number.and_then(|number| block_of(walk, number));
    let Some(mounted) = mounted.or_else(|| block::by_device_file(walk, &mount.source)) else {
        return no_device(walk, at, &mount.place, "The device that was mounted is not there.");
    };
    let folders = walk.root().names(PLACE).into_iter().map(|id| format!("{PLACE}/{id}/devices"));
    let all = folders.map(|folder| (walk.root().names(&folder), folder));
    match all.into_iter().find(|(names, _)| names.contains(&mounted)) {
        Some((names, folder)) => {
            let value = names.join(" ");
            walk.follow_all(at, names.into_iter().map(Resource::Block).collect(), &folder, &value);
        }
        None => walk.follow(at, Resource::Block(mounted), &mount.source, "the device that was mounted"),
    }
}

/// The devices of a ZFS pool. The kernel does not tell them: udev does, which looked at every disk's label.
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
    // A disk whose partition bears the label is found with it.
    let inner = |path: &&String| !paths.iter().any(|other| other.starts_with(&format!("{path}/")));
    let disks: Vec<Resource> = paths
        .iter()
        .filter(inner)
        .filter_map(|path| path.rsplit('/').next().map(|name| Resource::Block(name.to_owned())))
        .collect();
    if disks.is_empty() {
        let what = format!("Neither the kernel nor udev tells the devices of ZFS pool {pool}.");
        return walk.dead_end(
            at,
            "near-no-device",
            &mount.place,
            &what,
            "zpool status shows them: name them.",
        );
    }
    walk.follow_all(at, disks, LABELS, &format!("zfs_member {pool}"));
}

/// The layers of an overlay (`Documentation/filesystems/overlayfs.rst`): of a file the one that has it, of a
/// directory all, each file system once.
fn overlay(walk: &mut Walk, at: Position, mount: &Mount, facts: &PathFacts) {
    let rest = mounts::below(&facts.canonical, &mount.place).unwrap_or_default();
    let inner = format!("{}{rest}", mount.root.trim_end_matches('/'));
    let mut holders: Vec<(String, PathFacts)> = Vec::new();
    for layer in layers(&mount.options) {
        let path = if facts.kind == PathKind::File { format!("{layer}{inner}") } else { layer };
        let Ok(found) = walk.ground.locate.path(&path) else { continue };
        if !holders.iter().any(|(_, known)| (known.on, known.mount) == (found.on, found.mount)) {
            holders.push((path, found));
        }
        if facts.kind == PathKind::File {
            break;
        }
    }
    if holders.is_empty() {
        let what = "The layers of this overlay lie where this process cannot see them, as in a container.";
        return walk.dead_end(at, "near-layers-hidden", &mount.place, what, "Ask on the host.");
    }
    let paths = holders.into_iter().map(|(path, _)| Resource::Path(path)).collect();
    walk.follow_all(at, paths, "its layers", &mount.options);
}

/// The directories of an overlay, the upper one first. A colon between lower ones may be escaped.
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
    fn layers_are_told_in_either_form() {
        assert_eq!(layers("rw,lowerdir=/a:/b\\:c,upperdir=/u,workdir=/w"), ["/u", "/a", "/b:c"]);
        assert_eq!(layers("ro,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d"), ["/a:b", "/c", "/d"]);
        assert!(layers("").is_empty());
    }
}
