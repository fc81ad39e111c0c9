//! User-visible names of devices, from the class directories of sysfs
//! (`Documentation/admin-guide/sysfs-rules.rst`).

use super::device::NameClass;
use super::pci_address::PciAddress;
use crate::sysfs::{Sysfs, SysfsExt};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Role of a name, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Network interface.
    Net,
    /// Disk whose data the device itself moves: NVMe namespace, virtio disk, persistent memory.
    Disk,
    /// Disk behind a storage controller (SCSI, SATA).
    DiskBehind,
    /// Compute accelerator.
    Accelerator,
    /// NVMe controller.
    NvmeController,
    /// A path to a namespace of a multipath NVMe drive.
    NvmePath,
    /// RDMA device.
    Rdma,
    /// Data streaming or analytics accelerator of the idxd driver.
    Dsa,
    /// Graphics card node.
    Card,
    /// Render node.
    Render,
    /// Channel of a DMA engine.
    DmaChannel,
}

impl Role {
    fn class(self) -> NameClass {
        match self {
            Self::Net => NameClass::Net,
            Self::Disk | Self::DiskBehind | Self::NvmePath => NameClass::Block,
            Self::Accelerator => NameClass::Accelerator,
            Self::NvmeController => NameClass::Nvme,
            Self::Rdma => NameClass::Infiniband,
            Self::Dsa | Self::DmaChannel => NameClass::Dma,
            Self::Card | Self::Render => NameClass::Drm,
        }
    }
}

/// A name of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub role: Role,
    pub name: String,
    /// Directory of its attributes.
    pub path: String,
    /// Path from the device to it: `/virtio1/block/vda`.
    pub below: String,
}

/// The device of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A PCI function.
    Pci(PciAddress),
    /// Another device, by its canonical path.
    Other(String),
}

/// A device and all names below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Canonical path of the device.
    pub path: String,
    /// Names in display order.
    pub names: Vec<Named>,
}

impl Group {
    /// Returns whether a name below the device has this role.
    pub fn has(&self, role: Role) -> bool {
        self.names.iter().any(|named| named.role == role)
    }

    /// Returns the names without duplicates.
    pub fn shown(&self) -> Vec<String> {
        let mut shown: Vec<String> = Vec::with_capacity(self.names.len());
        for named in &self.names {
            if !shown.contains(&named.name) {
                shown.push(named.name.clone());
            }
        }
        shown
    }

    /// Returns the class of each name; for a name in several directories, the first displayed.
    pub fn classes(&self) -> BTreeMap<String, NameClass> {
        self.names.iter().rev().map(|named| (named.name.clone(), named.role.class())).collect()
    }
}

/// Returns the role of a name in a directory, if it names a device.
type RoleOf = fn(&str) -> Option<Role>;

/// Directories of names.
const DIRECTORIES: [(&str, RoleOf); 9] = [
    ("/sys/class/net", |_| Some(Role::Net)),
    ("/sys/class/infiniband", |_| Some(Role::Rdma)),
    ("/sys/class/nvme", |name| numbered(name, "nvme").then_some(Role::NvmeController)),
    ("/sys/class/drm", drm),
    ("/sys/class/accel", |name| numbered(name, "accel").then_some(Role::Accelerator)),
    ("/sys/class/mic", |name| numbered(name, "mic").then_some(Role::Accelerator)),
    ("/sys/class/ve", |name| numbered(name, "ve").then_some(Role::Accelerator)),
    ("/sys/class/dma", |_| Some(Role::DmaChannel)),
    ("/sys/bus/dsa/devices", |name| (numbered(name, "dsa") || numbered(name, "iax")).then_some(Role::Dsa)),
];

/// Returns all names by device, without virtual ones.
pub(super) fn collect(root: &dyn Sysfs) -> BTreeMap<Owner, Group> {
    let mut groups = BTreeMap::new();
    for (directory, role_of) in DIRECTORIES {
        for name in root.names(directory) {
            let Some(role) = role_of(&name) else { continue };
            let entry = format!("{directory}/{name}");
            let Some(found) = find(root, entry) else { continue };
            // Channels of controllers that serve a UART, for example, are below cells of the
            // function.
            let is_engine = matches!(found.owner, Owner::Pci(_)) && found.below == format!("/dma/{name}");
            if role != Role::DmaChannel || is_engine {
                add(&mut groups, found, role, name);
            }
        }
    }
    collect_disks(root, &mut groups);
    for group in groups.values_mut() {
        group.names.sort_by(|a, b| a.role.cmp(&b.role).then_with(|| natural(&a.name, &b.name)));
    }
    groups
}

/// Returns disks without partitions; old kernels have /sys/block instead of a class.
fn collect_disks(root: &dyn Sysfs, groups: &mut BTreeMap<Owner, Group>) {
    let directory = if root.exists("/sys/class/block") { "/sys/class/block" } else { "/sys/block" };
    let names = root.names(directory);
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    for name in names.iter().filter(|name| !is_partition_name(name, &known)) {
        let Some(found) = find(root, format!("{directory}/{name}")) else { continue };
        let parent = found.path.rsplit('/').nth(1).unwrap_or_default();
        let is_partition = known.contains(parent);
        if is_partition || numbered(name, "fd") {
            continue;
        }
        let head = multipath_head(name);
        let role = match &head {
            Some(_) => Role::NvmePath,
            None if found.below.contains("/target") => Role::DiskBehind,
            None => Role::Disk,
        };
        if let Some(head) = head.filter(|head| known.contains(head.as_str())) {
            add(groups, found.clone(), Role::Disk, head);
        }
        add(groups, found, role, name.clone());
    }
}

/// Returns whether a name is that of a known disk with a partition number (`block/genhd.c`,
/// `disk_name`): `sda1`, and after a disk whose name ends in a digit `nvme0n1p1`.
fn is_partition_name(name: &str, known: &BTreeSet<&str>) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let disk = match stem.strip_suffix('p') {
        Some(disk) if disk.ends_with(|c: char| c.is_ascii_digit()) => disk,
        _ => stem,
    };
    stem.len() < name.len() && known.contains(disk)
}

fn add(groups: &mut BTreeMap<Owner, Group>, found: Found, role: Role, name: String) {
    let Found { owner, device, path, below } = found;
    let group = groups.entry(owner).or_insert_with(|| Group { path: device, names: Vec::new() });
    group.names.push(Named { role, name, path, below });
}

/// The target of a class entry.
#[derive(Clone)]
struct Found {
    owner: Owner,
    /// Canonical path of the device.
    device: String,
    /// Directory of the entry's attributes.
    path: String,
    /// Path from the device to the entry.
    below: String,
}

/// Returns the device of a class entry, if it has one.
fn find(root: &dyn Sysfs, entry: String) -> Option<Found> {
    let device_link = || root.resolve(&format!("{entry}/device")).ok();
    let path = root.resolve(&entry).ok()?;
    // Kernels before 2.6.26 have directories with a link to the device here.
    let real = if path.starts_with("/sys/devices/") { path.clone() } else { device_link()? };
    if is_virtual(&real) {
        return None;
    }
    let (owner, device) = match last_function(&real) {
        Some((address, end)) => (Owner::Pci(address), real[..end].to_owned()),
        None => {
            let device = device_link().filter(|device| !is_virtual(device))?;
            (Owner::Other(device.clone()), device)
        }
    };
    let below = real.strip_prefix(&device).unwrap_or_default().to_owned();
    Some(Found { owner, device, path, below })
}

/// Returns whether a path is virtual: pure software, or reached over a network.
fn is_virtual(path: &str) -> bool {
    let Some(below) = path.strip_prefix("/sys/devices/") else { return true };
    const MADE_UP: [&str; 4] = ["virtual", "pseudo_", "tcm_loop", "netdevsim"];
    MADE_UP.iter().any(|start| below.starts_with(start)) || below.contains("/session")
}

/// Returns the last PCI function in a path and the end of its name.
fn last_function(path: &str) -> Option<(PciAddress, usize)> {
    let mut end = 0;
    let mut last = None;
    for part in path.split('/') {
        end += part.len();
        if let Some(address) = super::pci_address::address(part) {
            last = Some((address, end));
        }
        end += 1;
    }
    last
}

/// Returns `nvme0n1` for `nvme0c1n1`: the multipath disk of a namespace, numbered by its subsystem
/// (`drivers/nvme/host/multipath.c`).
fn multipath_head(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let all = [subsystem, controller, namespace];
    all.iter().all(|part| is_number(part)).then(|| format!("nvme{subsystem}n{namespace}"))
}

fn drm(name: &str) -> Option<Role> {
    match name {
        _ if numbered(name, "card") => Some(Role::Card),
        _ if numbered(name, "renderD") => Some(Role::Render),
        _ => None,
    }
}

/// Returns whether a name is a word followed by a number.
fn numbered(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Compares names in natural order: `eth2` before `eth10`.
fn natural(a: &str, b: &str) -> Ordering {
    let key = |text: &str| -> Vec<(String, u64)> {
        let mut key: Vec<(String, u64)> = vec![(String::new(), 0)];
        for part in text.chars() {
            let last = key.len() - 1;
            match part.to_digit(10) {
                Some(digit) => key[last].1 = key[last].1.saturating_mul(10).saturating_add(u64::from(digit)),
                None if key[last].1 > 0 => key.push((part.to_string(), 0)),
                None => key[last].0.push(part),
            }
        }
        key
    };
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_names_in_natural_order() {
        let mut names = ["eth10", "eth2", "eth1", "enp3s0f10", "enp3s0f9"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["enp3s0f9", "enp3s0f10", "eth1", "eth2", "eth10"]);
    }

    #[test]
    fn maps_multipath_namespaces_to_their_disk() {
        assert_eq!(multipath_head("nvme0c12n3").as_deref(), Some("nvme0n3"));
        for other in ["nvme0n1", "nvme0", "nvmecn", "nvme0cn1", "sdc1"] {
            assert_eq!(multipath_head(other), None, "{other}");
        }
    }

    #[test]
    fn recognizes_partitions_by_their_disk() {
        let known: BTreeSet<&str> = ["sda", "nvme0n1", "sdp", "md127"].into();
        for partition in ["sda1", "sda12", "nvme0n1p3", "sdp2", "md127p1"] {
            assert!(is_partition_name(partition, &known), "{partition}");
        }
        for disk in ["sda", "sdb1", "nvme0n12", "nvme1n1p1", "sdp", "md1", "md127p", "1", ""] {
            assert!(!is_partition_name(disk, &known), "{disk}");
        }
    }

    #[test]
    fn finds_the_last_function_in_a_path() {
        let path = "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0";
        let (address, end) = last_function(path).expect("a function");
        assert_eq!((address.to_string().as_str(), &path[end..]), ("10000:01:00.0", "/nvme/nvme0"));
        assert_eq!(last_function("/sys/devices/platform/host0/target0:0:0/0:0:0:0/block/sda"), None);
    }
}
