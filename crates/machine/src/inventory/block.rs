//! Disks and volumes (`Documentation/ABI/stable/sysfs-block`).

use crate::near::ResolveContext;
use crate::storage;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum depth of a stack of volumes.
const MAX_DEPTH: usize = 32;
/// Drivers of devices that hold data only while they are mounted: loop devices, RAM disks, drives
/// with removable media.
const HIDDEN_UNLESS_MOUNTED: [&str; 7] = ["loop", "ram", "zram", "nbd", "sr", "fd", "mtdblock"];

/// A disk or a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name, such as `sda`, `nvme0n1`, `dm-0`.
    pub name: String,
    /// Device mapper name, such as `vg-data`.
    pub alias: Option<String>,
    /// Kind of a volume: `raid1`, `logical volume`; `None` for a disk.
    pub stack: Option<String>,
    /// The disks at the bottom of a volume; empty for a disk.
    pub members: Vec<String>,
    /// Whether the kernel reports a rotational medium; `None` if unknown.
    pub rotational: Option<bool>,
    /// File of a loop device.
    pub backing_file: Option<String>,
    /// Index of its device in the topology; `None` for a volume.
    pub device: Option<usize>,
    /// Whether it is of interest only if it holds a mounted file system.
    pub is_hidden_unless_mounted: bool,
}

/// Reads the disks and volumes, by name.
pub(super) fn read(context: ResolveContext<'_>) -> Vec<BlockDevice> {
    let scan = BlockScan::new(context.root);
    let whole: Vec<(String, String)> = scan.paths.clone().into_iter().collect();
    whole.iter().filter_map(|(name, path)| scan.device(context, name, path)).collect()
}

/// Canonical paths of block devices that are not partitions, and the disks of partitions.
struct BlockScan<'a> {
    root: &'a dyn Sysfs,
    paths: BTreeMap<String, String>,
    disk_of_partition: BTreeMap<String, String>,
}

impl<'a> BlockScan<'a> {
    fn new(root: &'a dyn Sysfs) -> Self {
        let resolve = |name: String| Some((storage::block_path(root, &name)?, name));
        let all: Vec<(String, String)> = storage::block_names(root).into_iter().filter_map(resolve).collect();
        let names: BTreeSet<String> = all.iter().map(|(_, name)| name.clone()).collect();
        let mut scan = Self { root, paths: BTreeMap::new(), disk_of_partition: BTreeMap::new() };
        for (path, name) in all {
            // A partition is in the directory of its disk.
            match path.rsplit('/').nth(1).filter(|parent| names.contains(*parent)) {
                Some(disk) => drop(scan.disk_of_partition.insert(name, disk.to_owned())),
                None => drop(scan.paths.insert(name, path)),
            }
        }
        scan
    }

    /// Reads a disk or a volume; `None` if it holds no data of its own.
    fn device(&self, context: ResolveContext<'_>, name: &str, path: &str) -> Option<BlockDevice> {
        let root = self.root;
        // A path of a multipath NVMe drive is hidden, and the drive has its data.
        let is_path = name.strip_prefix("nvme").is_some_and(|rest| rest.contains('c'));
        let is_empty = root.value::<u64>(&format!("{path}/size")).is_ok_and(|sectors| sectors == 0);
        if is_path || is_empty {
            return None;
        }
        let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let alias = root.optional(&format!("{path}/dm/name")).filter(|name| !name.is_empty());
        let members = self.disks_below(path);
        let is_below_another = !root.names(&format!("{path}/holders")).is_empty();
        let topology = context.topology;
        let named =
            || topology.devices.iter().position(|device| device.moves_data() && device.has_name(name));
        Some(BlockDevice {
            name: name.to_owned(),
            stack: (!members.is_empty()).then(|| stack_kind(root, path)),
            rotational: root.value::<u8>(&format!("{path}/queue/rotational")).ok().map(|value| value == 1),
            backing_file: root
                .optional(&format!("{path}/loop/backing_file"))
                .map(|file| file.trim_end_matches(" (deleted)").to_owned()),
            device: if members.is_empty() { topology.device_at(path).or_else(named) } else { None },
            // Below another volume, a volume is a step of it.
            is_hidden_unless_mounted: HIDDEN_UNLESS_MOUNTED.contains(&driver)
                || (is_below_another && !members.is_empty()),
            alias,
            members,
        })
    }

    /// Returns the disks below a volume, each once, by name.
    fn disks_below(&self, path: &str) -> Vec<String> {
        let mut disks = BTreeSet::new();
        let mut volumes = vec![path.to_owned()];
        let mut seen = BTreeSet::new();
        for _ in 0..MAX_DEPTH {
            let Some(volume) = volumes.pop() else { break };
            for member in self.root.names(&format!("{volume}/slaves")) {
                let disk = self.disk_of_partition.get(&member).cloned().unwrap_or(member);
                let Some(below) = self.paths.get(&disk).filter(|_| seen.insert(disk.clone())) else {
                    continue;
                };
                match self.root.names(&format!("{below}/slaves")).is_empty() {
                    true => drop(disks.insert(disk)),
                    false => volumes.push(below.clone()),
                }
            }
        }
        disks.into_iter().collect()
    }
}

/// Returns the kind of a volume: the level of a RAID, or the kind of a mapping.
fn stack_kind(root: &dyn Sysfs, path: &str) -> String {
    if let Some(level) = root.optional(&format!("{path}/md/level")).filter(|level| !level.is_empty()) {
        return level;
    }
    let uuid = root.optional(&format!("{path}/dm/uuid")).unwrap_or_default();
    let kind = match uuid.split('-').next().unwrap_or_default() {
        "LVM" => "logical volume",
        "CRYPT" => "encrypted",
        "mpath" => "multipath",
        _ => "volume",
    };
    kind.to_owned()
}

/// Returns the disk or volume with a kernel name or a device mapper name, also for a partition.
pub(super) fn by_name(root: &dyn Sysfs, disks: &[BlockDevice], name: &str) -> Option<String> {
    let is = |disk: &&BlockDevice| disk.name == name || disk.alias.as_deref() == Some(name);
    if let Some(disk) = disks.iter().find(is) {
        return Some(disk.name.clone());
    }
    let scan_path = storage::block_path(root, name)?;
    let parent = scan_path.rsplit('/').nth(1)?;
    disks.iter().find(|disk| disk.name == parent).map(|disk| disk.name.clone())
}
