//! Mounted file systems with data, and what holds them.

use super::block::{self, BlockDevice};
use crate::locate::DeviceNumber;
use crate::near::file::OWN_MOUNTS;
use crate::near::mounts::{self, Mount};
use crate::near::{resolve, servers, Handle, ResolveContext};
use crate::storage;
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

/// File systems of the kernel, which hold no data of users (proc(5), /proc/filesystems).
const KERNEL: [&str; 26] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.lxcfs",
    "fuse.portal",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];
/// File systems backed by memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "hugetlbfs"];
/// File systems of servers, also of those that mountinfo does not name.
const OF_SERVERS: [&str; 20] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.ceph",
    "fuse.curlftpfs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "pvfs2",
    "smb3",
    "smbfs",
];

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Type: `ext4`, `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// Mount source, such as `/dev/sda1` or `store1:/export`.
    pub source: String,
    /// Device number.
    pub on: DeviceNumber,
    /// Mount points, in the order of mounting.
    pub mounts: Vec<String>,
    /// Mount ids.
    pub ids: Vec<u64>,
    /// The holder of its data.
    pub media: Media,
}

/// The holder of a file system's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media {
    /// Disks or volumes, by the kernel's names.
    Disks(Vec<String>),
    /// Memory of this machine.
    Memory,
    /// Servers, and the devices of the routes to them.
    Servers {
        /// Names or addresses.
        servers: Vec<String>,
        /// Network devices.
        interfaces: Vec<String>,
    },
    /// A pool of ZFS, by name.
    Pool(String),
    /// Neither a device nor a server is known.
    Unknown,
}

/// Reads the file systems with data, in the order of mounting.
pub(super) fn read(context: ResolveContext<'_>, disks: &[BlockDevice]) -> Vec<FileSystem> {
    let mut found: Vec<FileSystem> = Vec::new();
    let mounts = mounts::parse(&context.root.optional(OWN_MOUNTS).unwrap_or_default());
    for mount in mounts.iter().filter(|mount| has_data(mount)) {
        let is_same = |known: &&mut FileSystem| known.on == mount.on && known.source == mount.source;
        let known = match found.iter_mut().find(is_same) {
            Some(known) => known,
            None => {
                let Mount { kind, source, on, .. } = mount;
                let media = media(context, disks, mount);
                let (kind, source) = (kind.clone(), source.clone());
                let (mounts, ids) = (Vec::new(), Vec::new());
                found.push(FileSystem { kind, source, on: *on, mounts, ids, media });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        known.ids.push(mount.id);
        if !known.mounts.contains(&mount.place) {
            known.mounts.push(mount.place.clone());
        }
    }
    follow_files(&mut found, disks, &mounts);
    found
}

/// Returns whether users keep data on a mount.
fn has_data(mount: &Mount) -> bool {
    let is_below =
        |directory: &str| mount.place == directory || mount.place.starts_with(&format!("{directory}/"));
    let is_kernel = ["/proc", "/sys", "/dev"].into_iter().any(is_below) && !is_below("/dev/shm");
    !is_kernel && !KERNEL.contains(&mount.kind.as_str())
}

/// Returns the holder of a mount's data.
fn media(context: ResolveContext<'_>, disks: &[BlockDevice], mount: &Mount) -> Media {
    let kind = mount.kind.as_str();
    if IN_MEMORY.contains(&kind) {
        return Media::Memory;
    }
    let found = disks_of(context, disks, mount);
    if !found.is_empty() {
        return Media::Disks(found);
    }
    let servers = servers::of_mount(context, mount);
    if !servers.is_empty() || OF_SERVERS.contains(&kind) && mount.option("trans") != Some("virtio") {
        let interfaces: BTreeSet<String> =
            servers.iter().flat_map(|server| interfaces_to(context, server)).collect();
        return Media::Servers { servers, interfaces: interfaces.into_iter().collect() };
    }
    match (kind, mount.source.split('/').next()) {
        ("zfs", Some(pool)) if !pool.is_empty() => Media::Pool(pool.to_owned()),
        _ => Media::Unknown,
    }
}

/// Returns the disks of a mount: by its device number, or by the device files of its source.
fn disks_of(context: ResolveContext<'_>, disks: &[BlockDevice], mount: &Mount) -> Vec<String> {
    let root = context.root;
    let named = |name: &str| block::by_name(root, disks, name);
    if let Some(path) = storage::device_path(root, mount.on) {
        return path.rsplit('/').next().and_then(named).into_iter().collect();
    }
    let files = mount.source.split(':').filter_map(|file| file.strip_prefix("/dev/"));
    let listed: Vec<String> =
        files.filter_map(|name| named(name.strip_prefix("mapper/").unwrap_or(name))).collect();
    match (mount.kind.as_str(), listed.first()) {
        ("btrfs", Some(first)) => {
            let of_btrfs = btrfs_disks(context, disks, first);
            if of_btrfs.is_empty() {
                listed
            } else {
                of_btrfs
            }
        }
        _ => listed,
    }
}

/// Returns all disks of the btrfs file system on a disk (`fs/btrfs/sysfs.c`).
fn btrfs_disks(context: ResolveContext<'_>, disks: &[BlockDevice], disk: &str) -> Vec<String> {
    const PLACE: &str = "/sys/fs/btrfs";
    let root = context.root;
    let of_id = |id: String| -> BTreeSet<String> {
        let names = root.names(&format!("{PLACE}/{id}/devices"));
        names.iter().filter_map(|name| block::by_name(root, disks, name)).collect()
    };
    let all = root.names(PLACE).into_iter().map(of_id).find(|names| names.contains(disk));
    all.unwrap_or_default().into_iter().collect()
}

/// Returns the network devices of the routes to a server.
fn interfaces_to(context: ResolveContext<'_>, server: &str) -> Vec<String> {
    let found = resolve(context, &Handle::Host { name: server.to_owned(), port: None });
    found.devices.into_iter().map(|device| device.name).collect()
}

/// Replaces loop devices by what holds their files, and overlays by what holds their upper layer.
fn follow_files(found: &mut [FileSystem], disks: &[BlockDevice], mounts: &[Mount]) {
    for index in 0..found.len() {
        let FileSystem { kind, media, .. } = &found[index];
        let file = match media {
            Media::Disks(names) => {
                let disk = disks.iter().find(|disk| names.contains(&disk.name));
                disk.and_then(|disk| disk.backing_file.clone())
            }
            _ if kind == "overlay" => {
                let is_same = |mount: &&Mount| mount.on == found[index].on;
                let mount = mounts.iter().find(is_same);
                mount.and_then(|mount| mount.option("upperdir")).map(str::to_owned)
            }
            _ => None,
        };
        let Some(file) = file else { continue };
        // A stack of loop devices is followed once; an overlay does not hold its own layers.
        let is_holder = |other: &FileSystem| other.on != found[index].on && other.kind != "overlay";
        let holders: Vec<FileSystem> = found.iter().filter(|other| is_holder(other)).cloned().collect();
        // In a container, the layers are outside of its root.
        let is_own_root = above(found, &file).is_some_and(|top| top.kind == "overlay");
        if let Some(holder) = above(&holders, &file).filter(|_| !is_own_root) {
            found[index].media = holder.media.clone();
        }
    }
}

/// Returns the file system with the longest mount point above a path.
pub(super) fn above<'f>(found: &'f [FileSystem], path: &str) -> Option<&'f FileSystem> {
    let length = |found: &FileSystem| {
        let above = found.mounts.iter().filter(|place| mounts::below(path, place).is_some());
        above.map(String::len).max()
    };
    found
        .iter()
        .filter_map(|found| Some((length(found)?, found)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, found)| found)
}
