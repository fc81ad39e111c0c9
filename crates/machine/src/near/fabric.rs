//! Resolution of networked disks: NVMe over fabrics, iSCSI, network block devices.

use super::handle::split_port;
use super::members::{Division, Members};
use super::paths;
use super::walk::{Position, Resource, Walk};
use crate::sysfs::SysfsExt;

/// Follows a networked disk or a disk behind several NVMe controllers; returns whether it is one.
pub(super) fn follow(walk: &mut Walk, at: Position, name: &str, path: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if parent.contains("/nvme-fabrics/") {
        let controller = parent.rsplit('/').next().unwrap_or_default().to_owned();
        walk.follow(at, Resource::Nvme(controller), parent, "");
        return true;
    }
    if parent.contains("/nvme-subsystem/") {
        return through_controllers(walk, at, name, parent);
    }
    if let Some(session) = session_of(path) {
        return through_session(walk, at, &session);
    }
    let served_by = format!("{path}/pid");
    match walk.text(&served_by).and_then(|pid| pid.parse().ok()).filter(|_| name.starts_with("nbd")) {
        Some(pid) => walk.follow(at, Resource::Process(pid), &served_by, "the process that serves it"),
        None => return false,
    }
    true
}

/// Follows the controllers of a subsystem, each a path to the same disks
/// (`Documentation/admin-guide/nvme-multipath.rst`).
fn through_controllers(walk: &mut Walk, at: Position, name: &str, subsystem: &str) -> bool {
    let members = paths::controllers(walk.root(), subsystem, name);
    let found = !members.is_empty();
    let policy = walk.text(&format!("{subsystem}/iopolicy"));
    let division = match policy.as_deref() {
        Some("round-robin") => Division::Even,
        Some("queue-depth") => Division::Unpromised("a request uses the path with the fewest requests"),
        Some("numa") => Division::Unpromised("requests of a CPU use the path that is nearest to its node"),
        _ => Division::Unpromised("the iopolicy is unknown"),
    };
    let kind = format!("controllers {}", policy.unwrap_or_default()).trim_end().to_owned();
    walk.follow_members(at, Members { members, division, kind }, Resource::Nvme, subsystem);
    found
}

/// Follows an NVMe controller on PCI or on a network
/// (`drivers/nvme/host/fabrics.c`: `transport`, `address`).
pub(super) fn nvme(walk: &mut Walk, at: Position, name: &str) {
    let entry = format!("/sys/class/nvme/{name}");
    let path = walk.root().resolve(&entry).unwrap_or_default();
    if let Some(device) = walk.device_at(&path) {
        return walk.reach(at, device, &path);
    }
    let transport = walk.text(&format!("{entry}/transport")).unwrap_or_default();
    let source = format!("{entry}/address");
    let address = walk.text(&source).unwrap_or_default();
    let field = |field: &str| {
        address
            .split(',')
            .find_map(|part| part.trim().strip_prefix(field)?.strip_prefix('=').map(str::to_owned))
    };
    let value = format!("{transport} {address}");
    match (transport.as_str(), field("host_iface"), field("traddr"), field("host_traddr")) {
        ("tcp" | "rdma", Some(interface), ..) => walk.follow(at, Resource::Net(interface), &source, &value),
        ("tcp" | "rdma", _, Some(target), _) => walk.follow(at, Resource::Host(target), &source, &value),
        ("fc", _, _, Some(port)) => through_fibre_channel(walk, at, name, &port),
        _ => {
            let what = "The kernel does not report the device that connects this controller.";
            walk.dead_end(
                at,
                "near-no-device",
                name,
                what,
                "Name the network interface, or the target as host:NAME.",
            );
        }
    }
}

/// Follows the local Fibre Channel port, `nn-0x...:pn-0x...`
/// (`Documentation/ABI/testing/sysfs-class-fc_host`, `port_name`).
fn through_fibre_channel(walk: &mut Walk, at: Position, name: &str, port: &str) {
    const HOSTS: &str = "/sys/class/fc_host";
    let wanted = port.rsplit("pn-").next().unwrap_or_default();
    let has_port = |host: &String| walk.text(&format!("{HOSTS}/{host}/port_name")).as_deref() == Some(wanted);
    let host = walk.root().names(HOSTS).into_iter().find(has_port);
    let path = host.and_then(|host| walk.root().resolve(&format!("{HOSTS}/{host}")).ok());
    match path.and_then(|path| Some((walk.device_at(&path)?, path))) {
        Some((device, path)) => walk.reach(at, device, &path),
        None => {
            let what = format!("This machine has no Fibre Channel port {port}.");
            walk.dead_end(at, "near-no-device", name, &what, "Name the adapter by its PCI address.");
        }
    }
}

/// Returns the directory of a disk's iSCSI session (`/sys/devices/platform/host3/session1`).
fn session_of(path: &str) -> Option<String> {
    let start = path.find("/session")?;
    let end = path[start + 1..].find('/').map_or(path.len(), |length| start + 1 + length);
    Some(path[..end].to_owned())
}

/// Follows the connections of an iSCSI session by their current or configured addresses.
fn through_session(walk: &mut Walk, at: Position, session: &str) -> bool {
    let connections = walk.root().names(session);
    let connections = connections.iter().filter(|name| name.starts_with("connection"));
    let target = |connection: &String| {
        let folder = format!("{session}/{connection}/iscsi_connection/{connection}");
        ["address", "persistent_address"].iter().find_map(|file| walk.text(&format!("{folder}/{file}")))
    };
    let hosts: Vec<String> = connections
        .filter_map(target)
        .map(|host| split_port(&host).map_or_else(|| host.clone(), |(name, _)| name.to_owned()))
        .collect();
    let found = !hosts.is_empty();
    let stack = Members::unpromised(hosts, "iSCSI", "the session has several connections");
    walk.follow_members(at, stack, Resource::Host, session);
    found
}
