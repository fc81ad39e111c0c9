//! Helpers of the device tests.
#![allow(dead_code)] // not every test module uses all helpers

pub mod server;

use numaio_machine::devices::{Device, LocalitySource};
use numaio_machine::ids::{CpuId, NodeId, PackageId};
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::{ReadError, ReadErrorKind, Sysfs, SysfsExt};
use numaio_machine::topology::{Cpu, Memory, Node, Topology};
use numaio_machine::tree::Tree;
use std::fs;
use std::path::Path;

/// Creates a machine from nodes: id, CPUs, package.
pub fn machine(nodes: &[(u32, &str, u32)]) -> Topology {
    let node = |(id, cpus, package): &(u32, &str, u32)| {
        let memory = Memory { total_bytes: 64 << 30, free_bytes: 32 << 30, reclaimable_bytes: 1 << 30 };
        Node {
            id: NodeId(*id),
            cpus: CpuSet::parse_list(cpus).expect("a CPU list"),
            memory: Some(memory),
            huge_pages: Vec::new(),
            packages: vec![PackageId(*package)],
            access: Vec::new(),
            memory_side_caches: Vec::new(),
            memory_allowed: true,
            memory_kind: None,
            memory_kind_source: None,
            memory_unknown: false,
        }
    };
    let mut cpus: Vec<Cpu> = Vec::new();
    for (id, list, package) in nodes {
        let list = CpuSet::parse_list(list).expect("a CPU list");
        cpus.extend(list.iter().map(|cpu| Cpu {
            id: cpu,
            online: true,
            node: Some(NodeId(*id)),
            package: Some(PackageId(*package)),
            die: None,
            core: Some(cpu.0),
            siblings: CpuSet::one(cpu),
            allowed: true,
            isolated: false,
            core_kind: None,
        }));
    }
    cpus.sort_by_key(|cpu| cpu.id);
    Topology { nodes: nodes.iter().map(node).collect(), cpus, ..Topology::default() }
}

/// Reads nodes with CPUs from a tree, and packages from `physical_package_id`.
pub fn machine_of(root: &dyn Sysfs) -> Topology {
    const NODES: &str = "/sys/devices/system/node";
    let mut nodes: Vec<(u32, String, u32)> = Vec::new();
    for name in root.names(NODES) {
        let Some(id) = name.strip_prefix("node").and_then(|id| id.parse().ok()) else { continue };
        let mask = root.optional(&format!("{NODES}/{name}/cpumap"));
        let cpus: CpuSet = mask.and_then(|mask| CpuSet::parse_mask(&mask).ok()).unwrap_or_default();
        let package = cpus.first().and_then(|CpuId(cpu)| {
            root.value(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id")).ok()
        });
        nodes.push((id, cpus.to_string(), package.unwrap_or_default()));
    }
    if nodes.is_empty() {
        nodes.push((0, "0-1".to_owned(), 0));
    }
    nodes.sort();
    let nodes: Vec<(u32, &str, u32)> =
        nodes.iter().map(|(id, cpus, package)| (*id, cpus.as_str(), *package)).collect();
    machine(&nodes)
}

/// Large directories without device attributes.
const UNUSED: [&str; 4] = ["cache", "cpuidle", "hugepages", "memory"];

/// Loads the device-related files of a recorded machine as a tree.
pub fn load(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    for part in ["sys/bus", "sys/class", "sys/block", "sys/devices", "proc"] {
        let path = folder.join(part);
        if path.is_dir() {
            load_below(&mut tree, folder, &path);
        }
    }
    tree
}

fn load_below(tree: &mut Tree, root: &Path, folder: &Path) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = format!("/{}", path.strip_prefix(root).expect("below the root").display());
        let kind = entry.file_type().expect("a kind of file");
        if kind.is_symlink() {
            tree.link(&name, &fs::read_link(&path).expect("a link").to_string_lossy());
        } else if kind.is_dir() {
            if UNUSED.iter().any(|unused| entry.file_name() == *unused) {
                continue;
            }
            tree.dir(&name);
            load_below(tree, root, &path);
        } else if let Ok(content) = fs::read(&path) {
            tree.file(&name, content);
        }
    }
}

/// Files of the machine that runs the test.
pub struct Here;

impl Here {
    fn error(path: &str, error: &std::io::Error) -> ReadError {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => ReadErrorKind::Absent,
            _ => ReadErrorKind::Failed(error.to_string()),
        };
        ReadError::new(path, why)
    }
}

impl Sysfs for Here {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        fs::read(path).map_err(|error| Self::error(path, &error))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let entries = fs::read_dir(path).map_err(|error| Self::error(path, &error))?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        let resolved = fs::canonicalize(path).map_err(|error| Self::error(path, &error))?;
        Ok(resolved.to_string_lossy().into_owned())
    }
}

/// Returns the device with a name or an address.
pub fn named<'a>(devices: &'a [Device], name: &str) -> &'a Device {
    devices
        .iter()
        .find(|device| device.has_name(name))
        .unwrap_or_else(|| panic!("no {name}: {}", table(devices)))
}

/// Formats devices as lines for messages.
pub fn table(devices: &[Device]) -> String {
    let line = |device: &Device| {
        let node = device.locality.node.map_or("?".to_owned(), |node| node.to_string());
        let source: LocalitySource = device.locality.source;
        let nodes: &NodeSet = &device.locality.nodes;
        let link =
            device.link.map(|l| format!("{}x{}/{}x{}", l.gt_per_s, l.lanes, l.max_gt_per_s, l.max_lanes));
        let pci = device.pci.map(|pci| pci.to_string()).unwrap_or_else(|| device.path.clone());
        let up: Vec<String> = device.upstream.iter().map(ToString::to_string).collect();
        format!(
            "{pci} {} [{}] {:?} node {node} {source:?} {nodes} link {} irqs {} {:?} up {} {:?} {:?} {:?}\n",
            device.kind.name(),
            device.names.join(" "),
            device.driver.as_deref().unwrap_or("-"),
            link.as_deref().unwrap_or("-"),
            device.irqs.len(),
            device.power,
            up.join(" "),
            device.model,
            device.port_bits_per_s,
            device.sriov,
        )
    };
    devices.iter().map(line).collect()
}
