//! Network interfaces, down to the devices that carry them
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
        let what = "There is no such network interface here.";
        return walk.dead_end(at, "near-no-interface", name, what, "ip link shows those there are.");
    };
    if let Some(device) = walk.device_at(&path) {
        return walk.reach(at, device, &path);
    }
    if walk.text(&format!("{path}/type")).as_deref() == Some(LOOPBACK) {
        let what = "It is the loopback: what goes there stays on this machine and reaches no device.";
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

/// Follows an RDMA device: its own function, and where it has none, or carries a bond, its network interfaces
/// (`Documentation/ABI/stable/sysfs-class-infiniband`).
pub(super) fn follow_rdma(walk: &mut Walk, at: Position, name: &str) {
    let entry = format!("/sys/class/infiniband/{name}");
    let interfaces = rdma_interfaces(walk, &entry);
    let bonded = |name: &String| walk.root().exists(&format!("{NET}/{name}/bonding"));
    let own = walk.root().resolve(&entry).ok().and_then(|path| Some((walk.device_at(&path)?, path)));
    match own {
        Some((device, path)) if !interfaces.iter().any(bonded) => walk.reach(at, device, &path),
        _ if interfaces.is_empty() => {
            let what = "It is RDMA made by software, and no network interface stands below it.";
            walk.dead_end(at, "near-software", name, what, "Name the network interface it uses.");
        }
        _ => {
            let source = format!("{entry}/ports");
            let value = interfaces.iter().cloned().collect::<Vec<String>>().join(" ");
            walk.follow_all(at, interfaces.into_iter().map(Resource::Net).collect(), &source, &value);
        }
    }
}

/// Interfaces of an RDMA device's ports; software RDMA names its own in `parent`.
fn rdma_interfaces(walk: &Walk, entry: &str) -> BTreeSet<String> {
    let ports = walk.root().names(&format!("{entry}/ports"));
    let of_port = |port: &String| {
        let folder = format!("{entry}/ports/{port}/gid_attrs/ndevs");
        // The first entry tells the port's interface; a port has hundreds of them.
        walk.root().names(&folder).first().and_then(|gid| walk.text(&format!("{folder}/{gid}")))
    };
    ports.iter().filter_map(of_port).chain(walk.text(&format!("{entry}/parent"))).collect()
}

/// An interface that is made by software.
struct Interface<'a> {
    name: &'a str,
    path: &'a str,
}

impl Interface<'_> {
    fn is_bridge(&self, walk: &Walk) -> bool {
        // Ports of an Open vSwitch hang below one interface of this name.
        walk.root().exists(&format!("{}/bridge", self.path)) || self.name == "ovs-system"
    }

    /// Interfaces that this one stands on, by the links that the kernel keeps (`lower_eth0`).
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

    /// Through a bond, a team, a VLAN, a macvlan, an ipvlan.
    fn through_lower(&self, walk: &mut Walk, at: Position, lower: Vec<String>) {
        let mode = walk.text(&format!("{}/bonding/mode", self.path)).unwrap_or_default();
        let source = format!("{}/lower_*", self.path);
        let active_file = format!("{}/bonding/active_slave", self.path);
        // While all are down none is active, and any may become it.
        let active = walk.text(&active_file).filter(|_| mode.starts_with("active-backup"));
        let Some(active) = active.filter(|active| lower.contains(active)) else {
            let value = words([&self.kind(walk), mode.as_str(), &lower.join(" ")]);
            return through_all(walk, at, lower, &source, &value);
        };
        for name in lower {
            let (share, role) = if name == active { (1.0, "active") } else { (0.0, "stands by") };
            walk.follow(at.part(share), Resource::Net(name), &active_file, &format!("{mode}; {role}"));
        }
    }

    /// Through the ports of a bridge that lead out of the machine: not those of guests and containers.
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
            let what =
                "It is a bridge without a port that leads out of this machine: what goes further is routed.";
            let remedy = "Name the far end as host:NAME, or the network interface that leads there.";
            return walk.dead_end(at, "near-bridge-inside", self.name, what, remedy);
        }
        let value = words(["bridge of", &ports.join(" ")]);
        through_all(walk, at, out, &source, &value);
    }

    /// Whether it is the machine's end of a guest's or container's interface: a tap, or one of a pair.
    fn is_end_of_guest(&self, walk: &Walk) -> bool {
        let is_tap = walk.root().exists(&format!("{}/tun_flags", self.path));
        is_tap || (self.linked(walk).is_some() && self.lower(walk).is_empty() && self.is_virtual())
    }

    fn is_virtual(&self) -> bool {
        self.path.starts_with("/sys/devices/virtual/")
    }

    /// Number of the interface that it is tied to: the other end of a pair, or what a tunnel or, on old kernels,
    /// a VLAN stands on.
    fn linked(&self, walk: &Walk) -> Option<u32> {
        let number = |file: &str| walk.root().value::<u32>(&format!("{}/{file}", self.path)).ok();
        let own = number("ifindex")?;
        number("iflink").filter(|link| *link != own && *link != 0)
    }

    /// Through what it is tied to, or the bridge it is a port of.
    fn through_link(&self, walk: &mut Walk, at: Position) {
        if let Some(bridge) = self.master(walk) {
            let source = format!("{}/master", self.path);
            return walk.follow(at, Resource::Net(bridge), &source, "it is a port of it");
        }
        let Some(linked) = self.linked(walk) else {
            let what = "It is made by software, and no device stands below it.";
            let remedy = "Name the network interface that its packets leave by, or the far end as host:NAME.";
            return walk.dead_end(at, "near-software", self.name, what, remedy);
        };
        let source = format!("{}/iflink", self.path);
        match self.peer(walk, linked) {
            Some(peer) if walk.is_visiting(&Resource::Net(peer.clone())) => {
                let what = "It is one end of a pair whose ends are both here, without a bridge: what goes further is routed.";
                walk.dead_end(at, "near-routed", self.name, what, "Name the far end as host:NAME.");
            }
            Some(peer) => walk.follow(at, Resource::Net(peer), &source, &format!("{linked}")),
            None => {
                let what = format!("It is tied to interface {linked} of another network namespace.");
                let remedy = "On the host, name the interface of that number or the bridge it is a port of; or the far end as host:NAME.";
                walk.dead_end(at, "near-other-namespace", self.name, &what, remedy);
            }
        }
    }

    /// The bridge or Open vSwitch that it is a port of, unless the walk came from there.
    fn master(&self, walk: &Walk) -> Option<String> {
        let master = walk.root().resolve(&format!("{}/master", self.path)).ok()?;
        let name = master.rsplit('/').next()?.to_owned();
        (!walk.is_visiting(&Resource::Net(name.clone()))).then_some(name)
    }

    /// The interface of this number here, if that is what it is tied to: numbers of another namespace may be the
    /// same by chance, and then that interface is not tied back.
    fn peer(&self, walk: &Walk, linked: u32) -> Option<String> {
        let own = walk.root().value::<u32>(&format!("{}/ifindex", self.path)).ok()?;
        let number = |name: &str, file: &str| walk.root().value::<u32>(&format!("{NET}/{name}/{file}")).ok();
        let name = walk.root().names(NET).into_iter().find(|name| number(name, "ifindex") == Some(linked))?;
        let back = number(&name, "iflink");
        (back == Some(own) || (self.stands_on(walk) && back.is_some())).then_some(name)
    }

    /// Whether the kernel says that it stands on another interface: `/proc/net/vlan` where there are no `lower_`
    /// links (before Linux 3.9), and the type of a tunnel.
    fn stands_on(&self, walk: &Walk) -> bool {
        matches!(self.kind(walk).as_str(), "vlan" | "vxlan" | "macvlan" | "gre")
            || walk.root().exists(&format!("/proc/net/vlan/{}", self.name))
    }

    /// What it is, as its `uevent` says: `vlan`, `bond`, `bridge`; or what its files show.
    fn kind(&self, walk: &Walk) -> String {
        let uevent = walk.text(&format!("{}/uevent", self.path)).unwrap_or_default();
        uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).unwrap_or_default().to_owned()
    }
}

/// Goes on to interfaces, among which the share is divided by their speeds; evenly if one is unknown.
fn through_all(walk: &mut Walk, at: Position, names: Vec<String>, source: &str, value: &str) {
    let speeds: Option<Vec<f64>> = names.iter().map(|name| speed(walk, name)).collect();
    let speeds = speeds.unwrap_or_else(|| vec![1.0; names.len()]);
    let sum: f64 = speeds.iter().sum();
    for (name, speed) in names.into_iter().zip(speeds) {
        walk.follow(at.part(speed / sum), Resource::Net(name), source, value);
    }
}

/// Mbit/s of an interface; none while it is down or unknown (-1, or that without its sign).
fn speed(walk: &Walk, name: &str) -> Option<f64> {
    let speed: u32 = walk.root().value(&format!("{NET}/{name}/speed")).ok()?;
    (speed > 0 && speed < u32::from(u16::MAX) * 1000 && speed != u32::from(u16::MAX))
        .then(|| f64::from(speed))
}

fn words<'w>(parts: impl IntoIterator<Item = &'w str>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(" ")
}
