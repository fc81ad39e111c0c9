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
    let mut devices = Sockets::default();
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
        option(&mut found, &mut devices, name, value);
    }
    finish(&mut found, devices);
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

fn option(found: &mut GuestConfiguration, sockets: &mut Sockets, name: &str, value: &str) {
    let pairs = OptionPairs::parse(value);
    match name {
        "name" => found.name = pairs.kind(&["guest"]).filter(|name| !name.is_empty()).map(str::to_owned),
        "smp" => found.vcpus = pairs.kind(&["cpus"]).and_then(|count| count.parse().ok()),
        "m" => found.memory_bytes = pairs.kind(&["size"]).and_then(|text| size(text, MEBIBYTE)),
        "accel" => found.accelerator = pairs.kind(&["accel"]).map(str::to_owned),
        "machine" | "M" => {
            if let Some(accelerators) = pairs.get("accel") {
                // A list in the order of preference.
                found.accelerator = accelerators.split(':').next().map(str::to_owned);
            }
        }
        "overcommit" => found.locked |= pairs.is_on("mem-lock"),
        "realtime" => found.locked |= pairs.is_on("mlock"),
        "mem-path" => {
            let path = Some(value.to_owned());
            found.backends.push(MemoryBackend { id: "mem-path".to_owned(), path, ..Default::default() });
        }
        "object" => object(found, &pairs),
        "numa" => numa(found, &pairs),
        "device" => device(found, &pairs),
        "netdev" | "nic" | "net" => found.attachments.extend(network(&pairs)),
        "drive" => found.attachments.extend(pairs.get("file").and_then(disk)),
        "blockdev" => found.attachments.extend(blockdev(&pairs)),
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
fn finish(found: &mut GuestConfiguration, sockets: Sockets) {
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
            let address = pairs.get("host").map(|address| match address.matches(':').count() {
                1 => format!("0000:{address}"),
                _ => address.to_owned(),
            });
            let function = address.map(|address| Attachment::PciFunction { address });
            let path = pairs.get("sysfsdev").map(|path| Attachment::SysfsDevice { path: path.to_owned() });
            found.attachments.extend(function.or(path));
        }
        _ => {}
    }
}

fn network(pairs: &OptionPairs) -> Vec<Attachment> {
    match pairs.kind(&["type"]) {
        Some("tap" | "vhost-vdpa") => {}
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

fn blockdev(pairs: &OptionPairs) -> Option<Attachment> {
    ["filename", "file.filename"].iter().find_map(|key| pairs.get(key)).and_then(disk)
}

/// Returns a disk of a file or block device; `None` for network protocols and special names.
fn disk(path: &str) -> Option<Attachment> {
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
