//! Resolution of network interfaces to the devices below them
//! (`Documentation/ABI/testing/sysfs-class-net`, `Documentation/networking/bonding.rst`).

use super::walk::{Position, Resource, Walk};
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

const NET: &str = "/sys/class/net";
/// `ARPHRD_LOOPBACK` (`include/uapi/linux/if_arp.h`).
const LOOPBACK: &str = "772";

/// Follows an interface.
pub(super) fn follow(walk: &mut Walk, at: Position, name: &str) {
    let Ok(path) = walk.root().resolve(&format!("{NET}/{name}")) else {
        let what = "This machine has no such network interface.";
        return walk.dead_end(at, "near-no-interface", name, what, "List interfaces with ip link.");
    };
    if let Some(device) = walk.device_at(&path) {
        return walk.reach(at, device, &path);
    }
    if walk.text(&format!("{path}/type")).as_deref() == Some(LOOPBACK) {
        let what = "It is the loopback interface: its traffic reaches no device.";
        return walk.dead_end(
            at,
            "near-loopback",
            name,
            what,
            "Name the device of the program's other data.",
        );
    }
    let interface = Interface { name, path: &path };
    if interface.is_bridge(walk) {
        return interface.through_bridge(walk, at);
    }
    let lower = interface.lower(walk);
    if !lower.is_empty() {
        return interface.through_lower(walk, at, lower);
    }
    interface.through_link(walk, at);
}

/// Follows an RDMA device to its PCI function, or without one or for a bond to its network
/// interfaces (`Documentation/ABI/stable/sysfs-class-infiniband`).
pub(super) fn follow_rdma(walk: &mut Walk, at: Position, name: &str) {
    let entry = format!("/sys/class/infiniband/{name}");
    let interfaces = rdma_interfaces(walk, &entry);
    let bonded = |name: &String| walk.root().exists(&format!("{NET}/{name}/bonding"));
    let own = walk.root().resolve(&entry).ok().and_then(|path| Some((walk.device_at(&path)?, path)));
    match own {
        Some((device, path)) if !interfaces.iter().any(bonded) => walk.reach(at, device, &path),
        _ if interfaces.is_empty() => {
            let what = "It is a software RDMA device without a network interface below it.";
            walk.dead_end(at, "near-software", name, what, "Name the network interface it uses.");
        }
        _ => {
            let source = format!("{entry}/ports");
            let value = interfaces.iter().cloned().collect::<Vec<String>>().join(" ");
            walk.follow_all(at, interfaces.into_iter().map(Resource::Net).collect(), &source, &value);
        }
    }
}

/// Returns the interfaces of an RDMA device's ports; software RDMA names its interface in `parent`.
fn rdma_interfaces(walk: &Walk, entry: &str) -> BTreeSet<String> {
    let ports = walk.root().names(&format!("{entry}/ports"));
    let of_port = |port: &String| {
        let folder = format!("{entry}/ports/{port}/gid_attrs/ndevs");
        // The first GID entry names the port's interface; a port has hundreds of entries.
        walk.root().names(&folder).first().and_then(|gid| walk.text(&format!("{folder}/{gid}")))
    };
    ports.iter().filter_map(of_port).chain(walk.text(&format!("{entry}/parent"))).collect()
}

/// A virtual interface.
struct Interface<'a> {
    name: &'a str,
    path: &'a str,
}

impl Interface<'_> {
    fn is_bridge(&self, walk: &Walk) -> bool {
        // All ports of Open vSwitch are attached to a single interface with this name.
        walk.root().exists(&format!("{}/bridge", self.path)) || self.name == "ovs-system"
    }

    /// Returns the interfaces below this one, by the kernel's links (`lower_eth0`).
    fn lower(&self, walk: &Walk) -> Vec<String> {
        let names = walk.root().names(self.path);
        let lower: Vec<String> =
            names.iter().filter_map(|name| name.strip_prefix("lower_").map(str::to_owned)).collect();
        if !lower.is_empty() {
            return lower;
        }
        let slaves = walk.text(&format!("{}/bonding/slaves", self.path)).unwrap_or_default();
        slaves.split_whitespace().map(str::to_owned).collect()
    }

    /// Follows the lower interfaces of a bond, a team, a VLAN, a macvlan, an ipvlan.
    fn through_lower(&self, walk: &mut Walk, at: Position, lower: Vec<String>) {
        let mode = walk.text(&format!("{}/bonding/mode", self.path)).unwrap_or_default();
        let source = format!("{}/lower_*", self.path);
        let active_file = format!("{}/bonding/active_slave", self.path);
        // While all links are down, none is active and any can become active.
        let active = walk.text(&active_file).filter(|_| mode.starts_with("active-backup"));
        let Some(active) = active.filter(|active| lower.contains(active)) else {
            let value = words([&self.kind(walk), mode.as_str(), &lower.join(" ")]);
            return through_all(walk, at, lower, &source, &value);
        };
        for name in lower {
            let (share, role) = if name == active { (1.0, "active") } else { (0.0, "standby") };
            walk.follow(at.part(share), Resource::Net(name), &active_file, &format!("{mode}; {role}"));
        }
    }

    /// Follows the external ports of a bridge: not those of guests and containers.
    fn through_bridge(&self, walk: &mut Walk, at: Position) {
        let source = format!("{}/brif", self.path);
        let mut ports = walk.root().names(&source);
        if ports.is_empty() {
            ports = self.lower(walk);
        }
        let leads_out = |port: &String| {
            let path = walk.root().resolve(&format!("{NET}/{port}")).unwrap_or_default();
            let port = Interface { name: port, path: &path };
            !walk.is_visiting(&Resource::Net(port.name.to_owned())) && !port.is_end_of_guest(walk)
        };
        let out: Vec<String> = ports.iter().filter(|port| leads_out(port)).cloned().collect();
        if out.is_empty() {
            let what = "It is a bridge without an external port: its traffic to other machines is routed.";
            let remedy = "Name the peer as host:NAME, or the outgoing network interface.";
            return walk.dead_end(at, "near-bridge-inside", self.name, what, remedy);
        }
        let value = words(["bridge of", &ports.join(" ")]);
        through_all(walk, at, out, &source, &value);
    }

    /// Returns whether it is the host's end of a guest's or container's interface: a tap or veth.
    fn is_end_of_guest(&self, walk: &Walk) -> bool {
        let is_tap = walk.root().exists(&format!("{}/tun_flags", self.path));
        is_tap || (self.linked(walk).is_some() && self.lower(walk).is_empty() && self.is_virtual())
    }

    fn is_virtual(&self) -> bool {
        self.path.starts_with("/sys/devices/virtual/")
    }

    /// Returns the index of the linked interface: the peer of a veth, or the interface below a
    /// tunnel or, on old kernels, a VLAN.
    fn linked(&self, walk: &Walk) -> Option<u32> {
        let number = |file: &str| walk.root().value::<u32>(&format!("{}/{file}", self.path)).ok();
        let own = number("ifindex")?;
        number("iflink").filter(|link| *link != own && *link != 0)
    }

    /// Follows the linked interface, or the bridge with this port.
    fn through_link(&self, walk: &mut Walk, at: Position) {
        if let Some(bridge) = self.master(walk) {
            let source = format!("{}/master", self.path);
            return walk.follow(at, Resource::Net(bridge), &source, "its bridge");
        }
        let Some(linked) = self.linked(walk) else {
            let what = "It is a virtual interface without a device below it.";
            let remedy = "Name the outgoing network interface of its packets, or the peer as host:NAME.";
            return walk.dead_end(at, "near-software", self.name, what, remedy);
        };
        let source = format!("{}/iflink", self.path);
        match self.peer(walk, linked) {
            Some(peer) if walk.is_visiting(&Resource::Net(peer.clone())) => {
                let what =
                    "Both ends of this veth pair are on this host without a bridge: its traffic is routed.";
                walk.dead_end(at, "near-routed", self.name, what, "Name the peer as host:NAME.");
            }
            Some(peer) => walk.follow(at, Resource::Net(peer), &source, &format!("{linked}")),
            None => {
                let what = format!("It is linked to interface {linked} of another network namespace.");
                let remedy = "On the host, name that interface or its bridge; or name the peer as host:NAME.";
                walk.dead_end(at, "near-other-namespace", self.name, &what, remedy);
            }
        }
    }

    /// Returns its bridge or Open vSwitch, unless the walk came from there.
    fn master(&self, walk: &Walk) -> Option<String> {
        let master = walk.root().resolve(&format!("{}/master", self.path)).ok()?;
        let name = master.rsplit('/').next()?.to_owned();
        (!walk.is_visiting(&Resource::Net(name.clone()))).then_some(name)
    }

    /// Returns the linked interface if it is in this network namespace.
    ///
    /// Indexes of other namespaces can coincide; only an interface that links back is the peer.
    fn peer(&self, walk: &Walk, linked: u32) -> Option<String> {
        let own = walk.root().value::<u32>(&format!("{}/ifindex", self.path)).ok()?;
        let number = |name: &str, file: &str| walk.root().value::<u32>(&format!("{NET}/{name}/{file}")).ok();
        let name = walk.root().names(NET).into_iter().find(|name| number(name, "ifindex") == Some(linked))?;
        let back = number(&name, "iflink");
        (back == Some(own) || (self.stands_on(walk) && back.is_some())).then_some(name)
    }

    /// Returns whether it has a lower interface: by `/proc/net/vlan` on kernels without `lower_`
    /// links (before Linux 3.9), and by the type of a tunnel.
    fn stands_on(&self, walk: &Walk) -> bool {
        matches!(self.kind(walk).as_str(), "vlan" | "vxlan" | "macvlan" | "gre")
            || walk.root().exists(&format!("/proc/net/vlan/{}", self.name))
    }

    /// Returns its kind from `uevent` (`vlan`, `bond`, `bridge`) or from its files.
    fn kind(&self, walk: &Walk) -> String {
        let uevent = walk.text(&format!("{}/uevent", self.path)).unwrap_or_default();
        uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).unwrap_or_default().to_owned()
    }
}

/// Follows interfaces with shares by link speed, or even shares if a speed is unknown.
fn through_all(walk: &mut Walk, at: Position, names: Vec<String>, source: &str, value: &str) {
    let speeds: Option<Vec<f64>> = names.iter().map(|name| speed(walk, name)).collect();
    let speeds = speeds.unwrap_or_else(|| vec![1.0; names.len()]);
    let sum: f64 = speeds.iter().sum();
    for (name, speed) in names.into_iter().zip(speeds) {
        walk.follow(at.part(speed / sum), Resource::Net(name), source, value);
    }
}

/// Returns the speed in Mbit/s; `None` if the link is down or unknown (-1, possibly unsigned).
fn speed(walk: &Walk, name: &str) -> Option<f64> {
    let speed: u32 = walk.root().value(&format!("{NET}/{name}/speed")).ok()?;
    (speed > 0 && speed < u32::from(u16::MAX) * 1000 && speed != u32::from(u16::MAX))
        .then(|| f64::from(speed))
}

fn words<'w>(parts: impl IntoIterator<Item = &'w str>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(" ")
}
