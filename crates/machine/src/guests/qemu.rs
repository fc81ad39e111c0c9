//! Command lines of QEMU, also as written by libvirt (qemu(1)).

use super::configuration::{numbers, Attachment, GuestCell, GuestConfiguration, Hypervisor, MemoryBackend};
use super::option_text::{size, OptionPairs};
use crate::set::NodeSet;

/// Bytes of a memory size without suffix.
const MEBIBYTE: u64 = 1 << 20;

/// Parses the arguments; `None` for a run without a guest, such as `-version`.
pub(super) fn parse(arguments: &[&str]) -> Option<GuestConfiguration> {
    let without_guest = ["-version", "--version", "-help", "--help", "-h"].contains(arguments.first()?);
    if without_guest {
        return None;
    }
    let mut found = GuestConfiguration::new(Hypervisor::Qemu);
    let (mut sockets, mut references) = (Sockets::default(), References::default());
    let mut index = 0;
    while let Some(argument) = arguments.get(index) {
        index += 1;
        let Some(name) = argument.strip_prefix('-').map(|name| name.strip_prefix('-').unwrap_or(name)) else {
            // A disk without option.
            found.attachments.extend(disk(argument));
            continue;
        };
        if flag(&mut found, name) {
            continue;
        }
        let Some(value) = arguments.get(index).filter(|value| !value.starts_with('-') || *value == &"-")
        else {
            continue;
        };
        index += 1;
        option(&mut found, &mut sockets, &mut references, name, value);
    }
    finish(&mut found, sockets, references);
    Some(found)
}

/// Applies an option without value; returns whether it was one.
fn flag(found: &mut GuestConfiguration, name: &str) -> bool {
    match name {
        "enable-kvm" => found.accelerator = Some("kvm".to_owned()),
        "mem-prealloc" | "nographic" | "S" | "daemonize" | "nodefaults" | "no-user-config" | "no-reboot"
        | "no-shutdown" | "no-hpet" | "snapshot" | "usb" | "no-acpi" => {}
        _ => return false,
    }
    true
}

/// Character devices with a socket, which a monitor may use.
#[derive(Default)]
struct Sockets {
    /// Id and path.
    paths: Vec<(String, String)>,
    /// Ids of monitors in control mode.
    monitors: Vec<String>,
}

/// Options that refer to others by name, which may follow them.
#[derive(Default)]
struct References {
    /// Block nodes.
    nodes: Vec<BlockNode>,
    /// Names of the block nodes of the firmware.
    flashes: Vec<String>,
    /// Ids of the backends of memory devices, which add to the memory.
    memory_devices: Vec<String>,
    /// Sets of descriptors, each with a descriptor.
    descriptors: Vec<(u32, u32)>,
}

/// A node of QEMU's graph of block devices.
#[derive(Default)]
struct BlockNode {
    name: Option<String>,
    /// Name of the node below it.
    file: Option<String>,
    /// What it is attached to, unless it is above another node.
    attachment: Option<Attachment>,
}

impl BlockNode {
    fn of(pairs: &OptionPairs) -> Self {
        let text = |key: &str| pairs.get(key).map(str::to_owned);
        Self { name: text("node-name"), file: text("file"), attachment: block_node(pairs) }
    }
}

fn option(
    found: &mut GuestConfiguration,
    sockets: &mut Sockets,
    references: &mut References,
    name: &str,
    value: &str,
) {
    let pairs = OptionPairs::parse(value);
    match name {
        "name" => found.name = pairs.kind(&["guest"]).filter(|name| !name.is_empty()).map(str::to_owned),
        "smp" => found.vcpus = processors(&pairs),
        "m" => found.memory_bytes = pairs.kind(&["size"]).and_then(|text| size(text, MEBIBYTE)),
        "accel" => found.accelerator = pairs.kind(&["accel"]).map(str::to_owned),
        "machine" | "M" => {
            if let Some(accelerators) = pairs.get("accel") {
                // A list in the order of preference.
                found.accelerator = accelerators.split(':').next().map(str::to_owned);
            }
            let flashes = ["pflash0", "pflash1"].into_iter().filter_map(|key| pairs.get(key));
            references.flashes.extend(flashes.map(str::to_owned));
        }
        "overcommit" => found.locked |= pairs.is_on("mem-lock"),
        "realtime" => found.locked |= pairs.is_on("mlock"),
        "mem-path" => {
            let path = Some(value.to_owned());
            found.backends.push(MemoryBackend { id: "mem-path".to_owned(), path, ..Default::default() });
        }
        "object" => object(found, &pairs),
        "numa" => numa(found, &pairs),
        "device" => {
            device(found, &pairs);
            references.memory_devices.extend(memory_device(&pairs));
        }
        "add-fd" => {
            let number = |key: &str| pairs.get(key).and_then(|text| text.parse::<u32>().ok());
            references.descriptors.extend(number("set").zip(number("fd")));
        }
        "netdev" | "nic" | "net" => found.attachments.extend(network(&pairs, &references.descriptors)),
        // The firmware of the guest, to which no I/O goes.
        "drive" if pairs.get("if") == Some("pflash") => {}
        "drive" => found.attachments.extend(drive(&pairs)),
        "blockdev" => references.nodes.push(BlockNode::of(&pairs)),
        "hda" | "hdb" | "hdc" | "hdd" | "cdrom" => found.attachments.extend(disk(value)),
        "qmp" | "qmp-pretty" => found.monitors.extend(unix_server(&pairs)),
        "chardev" => {
            let path = pairs.get("path").filter(|_| pairs.kind(&["backend"]) == Some("socket"));
            sockets.paths.extend(pairs.get("id").map(str::to_owned).zip(path.map(str::to_owned)));
        }
        "mon" => {
            let is_control = pairs.get("mode") == Some("control");
            sockets.monitors.extend(
                pairs.kind(&["chardev"]).or(pairs.get("chardev")).filter(|_| is_control).map(str::to_owned),
            );
        }
        _ => {}
    }
}

/// Completes what depends on several options.
fn finish(found: &mut GuestConfiguration, sockets: Sockets, references: References) {
    let of_devices = found.backends.iter().filter(|backend| references.memory_devices.contains(&backend.id));
    let more = of_devices.fold(0u64, |sum, backend| sum.saturating_add(backend.bytes));
    found.memory_bytes = found.memory_bytes.map(|bytes| bytes.saturating_add(more));
    found.attachments.extend(references.disks());
    for (id, path) in sockets.paths {
        if sockets.monitors.contains(&id) {
            found.monitors.push(path);
        }
    }
    for cell in &mut found.cells {
        let backend = found.backends.iter().find(|backend| Some(&backend.id) == cell.backend.as_ref());
        cell.bytes = cell.bytes.or(backend.map(|backend| backend.bytes));
    }
    found.vcpus = found.vcpus.or(Some(1));
    found.attachments.dedup();
}

impl References {
    /// Returns what the block nodes are attached to, without those of the firmware.
    fn disks(self) -> Vec<Attachment> {
        let Self { nodes, mut flashes, .. } = self;
        // The nodes below the firmware's: each name is followed once.
        let mut followed = 0;
        while let Some(name) = flashes.get(followed).cloned() {
            followed += 1;
            let below = nodes.iter().filter(|node| node.name.as_ref() == Some(&name));
            let below: Vec<String> = below.filter_map(|node| node.file.clone()).collect();
            flashes.extend(below.into_iter().filter(|name| !flashes.contains(name)).collect::<Vec<_>>());
        }
        let is_firmware = |node: &BlockNode| node.name.as_ref().is_some_and(|name| flashes.contains(name));
        nodes.into_iter().filter(|node| !is_firmware(node)).filter_map(|node| node.attachment).collect()
    }
}

/// Returns the number of virtual CPUs at the start: the number itself, the maximum, or the product
/// of the topology, where a missing part is 1 (qemu(1), `-smp`).
fn processors(pairs: &OptionPairs) -> Option<u32> {
    let number = |key: &str| pairs.get(key).and_then(|count| count.parse::<u32>().ok()).filter(|n| *n > 0);
    let leading = pairs.get("").and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    let parts = ["drawers", "books", "sockets", "dies", "clusters", "modules", "cores", "threads"];
    let product = || parts.into_iter().filter_map(number).try_fold(1u32, u32::checked_mul);
    leading.or(number("cpus")).or(number("maxcpus")).or_else(product)
}

/// Returns the backend of a memory device, which adds to the memory of `-m`.
fn memory_device(pairs: &OptionPairs) -> Option<String> {
    // The guest plugs that of virtio-mem later, and an nvdimm is a file.
    let is_of_host = pairs.kind(&["driver"]) == Some("pc-dimm");
    pairs.get("memdev").filter(|_| is_of_host).map(str::to_owned)
}

fn object(found: &mut GuestConfiguration, pairs: &OptionPairs) {
    let id = pairs.get("id").unwrap_or_default().to_owned();
    match pairs.kind(&["qom-type"]).unwrap_or_default() {
        "iothread" => found.io_threads.push(id),
        // libvirt's own key, which no other program passes.
        "secret" if id == "masterKey0" => found.libvirt = true,
        kind if kind.starts_with("memory-backend-") => found.backends.push(MemoryBackend {
            id,
            bytes: pairs.get("size").and_then(|text| size(text, 1)).unwrap_or(0),
            host_nodes: pairs
                .all("host-nodes")
                .filter_map(|list| NodeSet::parse_list(list).ok())
                .fold(NodeSet::new(), |all, nodes| all.union(&nodes)),
            policy: pairs.get("policy").filter(|policy| *policy != "default").map(str::to_owned),
            path: pairs.get("mem-path").map(str::to_owned),
        }),
        _ => {}
    }
}

fn numa(found: &mut GuestConfiguration, pairs: &OptionPairs) {
    if pairs.kind(&["type"]) == Some("node") {
        found.cells.push(GuestCell {
            id: pairs
                .get("nodeid")
                .and_then(|id| id.parse().ok())
                .unwrap_or(u32::try_from(found.cells.len()).unwrap_or(u32::MAX)),
            vcpus: numbers(&pairs.all("cpus").collect::<Vec<_>>().join(",")),
            backend: pairs.get("memdev").map(str::to_owned),
            bytes: pairs.get("mem").and_then(|text| size(text, MEBIBYTE)),
        });
    }
}

fn device(found: &mut GuestConfiguration, pairs: &OptionPairs) {
    let kind = pairs.kind(&["driver"]).unwrap_or_default();
    match kind {
        "pxb-pcie" | "pxb" => {
            found.expander_buses.extend(pairs.get("numa_node").and_then(|node| node.parse::<u32>().ok()));
        }
        _ if kind.starts_with("vfio-") => {
            let function = pairs.get("host").map(function);
            let path = pairs.get("sysfsdev").map(|path| Attachment::SysfsDevice { path: path.to_owned() });
            found.attachments.extend(function.or(path));
        }
        _ => {}
    }
}

/// Returns the PCI function of an address, whose domain may be missing.
fn function(address: &str) -> Attachment {
    let address = match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address.to_owned(),
    };
    Attachment::PciFunction { address }
}

fn network(pairs: &OptionPairs, descriptors: &[(u32, u32)]) -> Vec<Attachment> {
    match pairs.kind(&["type"]) {
        Some("tap") => {}
        Some("vhost-vdpa") => {
            let set = pairs.get("vhostdev").and_then(|path| path.strip_prefix("/dev/fdset/")?.parse().ok());
            let of_set = descriptors.iter().find(|(number, _)| Some(*number) == set).map(|(_, fd)| *fd);
            let fd = of_set.or_else(|| pairs.get("vhostfd")?.parse().ok());
            return fd.map(|fd| Attachment::InterfaceDescriptor { fd }).into_iter().collect();
        }
        Some("bridge") => {
            let bridge = pairs.get("br").unwrap_or("br0").to_owned();
            return vec![Attachment::Interface { name: bridge }];
        }
        _ => return Vec::new(),
    }
    if let Some(name) = pairs.get("ifname") {
        return vec![Attachment::Interface { name: name.to_owned() }];
    }
    let fds = pairs.all("fd").chain(pairs.all("fds")).flat_map(|list| list.split(':'));
    let fd = fds.filter_map(|fd| fd.parse().ok()).next();
    // Queues of one interface share its attachment.
    fd.map(|fd| Attachment::InterfaceDescriptor { fd }).into_iter().collect()
}

/// Returns what a drive is attached to: its file, also as `json:` of a block node, or that of the
/// block drivers below it.
fn drive(pairs: &OptionPairs) -> Option<Attachment> {
    let Some(file) = pairs.get("file") else { return block_node(pairs) };
    match file.strip_prefix("json:") {
        Some(json) => block_node(&OptionPairs::parse(json)),
        None => disk(file),
    }
}

/// Returns what a block node is attached to: a file or block device below any number of block
/// drivers, or an NVMe controller that QEMU owns by VFIO.
fn block_node(pairs: &OptionPairs) -> Option<Attachment> {
    const DEPTH: usize = 16;
    let layers: Vec<String> = (0..DEPTH).map(|depth| "file.".repeat(depth)).collect();
    layers.iter().find_map(|below| {
        let value = |key: &str| pairs.get(&format!("{below}{key}"));
        let nvme = value("device").filter(|_| value("driver") == Some("nvme"));
        nvme.map(function).or_else(|| value("filename").and_then(disk))
    })
}

/// Returns a disk of a file or block device; `None` for network protocols and special names.
fn disk(path: &str) -> Option<Attachment> {
    if let Some(nvme) = path.strip_prefix("nvme://") {
        // nvme://ADDRESS/NAMESPACE
        return Some(function(nvme.split('/').next().unwrap_or(nvme)));
    }
    let path = path.strip_prefix("file:").unwrap_or(path);
    let protocol = path.split_once(':').map_or("", |(protocol, _)| protocol);
    let is_protocol = !protocol.is_empty() && !protocol.contains('/');
    let is_special = path.is_empty() || path == "none" || path.starts_with("/dev/fdset/");
    (!is_protocol && !is_special).then(|| Attachment::Disk { path: path.to_owned() })
}

/// Returns the path of a monitor's socket at which it listens.
fn unix_server(pairs: &OptionPairs) -> Option<String> {
    let path = pairs.get("")?.strip_prefix("unix:")?;
    let listens = pairs.is_on("server");
    (listens && !path.is_empty()).then(|| path.to_owned())
}
