//! Resolution of network interfaces to the devices below them
//! (`Documentation/ABI/testing/sysfs-class-net`, `Documentation/networking/bonding.rst`).
//!
//! The interfaces below one decide before the device of the interface itself: that of a netvsc or
//! net_failover is a fallback, and that of a DSA port only manages the switch.

use super::members::{Division, Member, Members};
use super::walk::{Position, Resource, Walk};
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

const NET: &str = "/sys/class/net";
/// `ARPHRD_LOOPBACK` (`include/uapi/linux/if_arp.h`).
const LOOPBACK: &str = "772";
/// `ARPHRD_TUNNEL`, `ARPHRD_TUNNEL6`, `ARPHRD_SIT`, `ARPHRD_IPGRE` and `ARPHRD_IP6GRE`: their
/// `iflink` is the interface that they are bound to.
const TUNNELS: [&str; 5] = ["768", "769", "776", "778", "823"];

/// Follows an interface.
pub(super) fn follow(walk: &mut Walk, at: Position, name: &str) {
    let Ok(path) = walk.root().resolve(&format!("{NET}/{name}")) else {
        let what = "This machine has no such network interface.";
        return walk.dead_end(at, "near-no-interface", name, what, "List interfaces with ip link.");
    };
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
    match walk.device_at(&path) {
        Some(device) => walk.reach(at, device, &path),
        None => interface.through_link(walk, at),
    }
}

/// Follows an RDMA device to its PCI function, or a software device to its network interface
/// (`Documentation/ABI/stable/sysfs-class-infiniband`).
///
/// A device that bonds the ports of a card transfers all data by its own function, and the card
/// selects the port; a bond of several cards leaves each its RDMA device.
pub(super) fn follow_rdma(walk: &mut Walk, at: Position, name: &str) {
    let entry = format!("/sys/class/infiniband/{name}");
    let own = walk.root().resolve(&entry).ok().and_then(|path| Some((walk.device_at(&path)?, path)));
    if let Some((device, path)) = own {
        return walk.reach(at, device, &path);
    }
    let interfaces = rdma_interfaces(walk, &entry);
    if interfaces.is_empty() {
        let what = "Not followed: it is a software RDMA device without a network interface below it.";
        return walk.dead_end(at, "near-software", name, what, "Name the network interface it uses.");
    }
    let stack = Members::unpromised(interfaces, "ports", "each connection uses one port");
    walk.follow_members(at, stack, Resource::Net, &format!("{entry}/ports"));
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

    /// Follows the lower interfaces of a bond, a team, a VLAN, a macvlan, an ipvlan, a netvsc.
    fn through_lower(&self, walk: &mut Walk, at: Position, lower: Vec<String>) {
        let bond = walk.text(&format!("{}/bonding/mode", self.path));
        let source = format!("{}/lower_*", self.path);
        let mut stack = match bond {
            Some(mode) => self.bond(walk, &mode, lower),
            None if self.is_virtual() || self.kind(walk) == "dsa" => {
                let member = |name: String| Member { idle: link_down(walk, &name), name };
                let members = lower.into_iter().map(member).collect();
                let division = Division::Unpromised("numaio does not know how this driver divides packets");
                Members { members, division, kind: self.kind(walk) }
            }
            None => return self.through_failover(walk, at, lower, &source),
        };
        stack.keep_only_member();
        walk.follow_members(at, stack, Resource::Net, &source);
    }

    /// Returns the ports of a bond (`drivers/net/bonding/bond_main.c`).
    fn bond(&self, walk: &Walk, mode: &str, lower: Vec<String>) -> Members {
        let text = |file: &str| walk.text(&format!("{}/bonding/{file}", self.path));
        let (active, aggregator) = (text("active_slave"), text("ad_aggregator"));
        let name_of_mode = mode.split(' ').next().unwrap_or_default();
        let idle = |name: &str| {
            let of_port = |file: &str| walk.text(&format!("{NET}/{name}/bonding_slave/{file}"));
            let other_aggregator =
                || of_port("ad_aggregator_id").zip(aggregator.clone()).is_some_and(|(own, used)| own != used);
            match name_of_mode {
                "active-backup" if active.as_deref() == Some(name) => None,
                "active-backup" => Some("standby".to_owned()),
                _ if of_port("mii_status").is_some_and(|status| status == "down") => {
                    Some("link down".to_owned())
                }
                "802.3ad" if other_aggregator() => Some("in another aggregator".to_owned()),
                _ if of_port("state").is_some_and(|state| state == "backup") => Some("backup".to_owned()),
                _ => link_down(walk, name),
            }
        };
        let division = match name_of_mode {
            "balance-rr" => Division::Even,
            "broadcast" => Division::Unpromised("every port sends all packets"),
            "balance-tlb" | "balance-alb" => Division::Unpromised("connections move between ports by load"),
            _ => Division::Unpromised("each connection uses one port, by the hash of its addresses"),
        };
        let members = lower.into_iter().map(|name| Member { idle: idle(&name), name }).collect();
        Members { members, division, kind: format!("bond {mode}") }
    }

    /// Follows the data path of an interface with a virtual function: the function while it has a
    /// link, or else the paravirtual device (`drivers/net/hyperv/netvsc_drv.c`:
    /// `netvsc_start_xmit`, `drivers/net/net_failover.c`: `net_failover_start_xmit`).
    fn through_failover(&self, walk: &mut Walk, at: Position, lower: Vec<String>, source: &str) {
        let device = |path: &str| walk.root().resolve(&format!("{path}/device")).ok();
        let own = device(self.path);
        let is_standby = |name: &String| own.is_some() && device(&format!("{NET}/{name}")) == own;
        let (standby, functions): (Vec<String>, Vec<String>) = lower.into_iter().partition(is_standby);
        let states = functions.into_iter().map(|name| Member { idle: link_down(walk, &name), name });
        let mut members: Vec<Member> = states.collect();
        let uses_function = members.iter().any(|member| member.idle.is_none());
        let idle = uses_function.then(|| "standby".to_owned());
        members.extend(standby.into_iter().map(|name| Member { name, idle: idle.clone() }));
        let has_data_path = members.iter().any(|member| member.idle.is_none());
        let kind = "failover".to_owned();
        if has_data_path {
            let stack = Members { members, division: Division::Even, kind };
            return walk.follow_members(at, stack, Resource::Net, source);
        }
        for Member { name, idle } in members {
            walk.follow(
                at.part(0.0),
                Resource::Net(name),
                source,
                &format!("{kind}: {}", idle.unwrap_or_default()),
            );
        }
        match walk.device_at(self.path) {
            Some(device) => walk.reach(at, device, self.path),
            None => {
                let what =
                    "Its virtual function has no link, and its paravirtual device is not a PCI device.";
                walk.dead_end(at, "near-software", self.name, what, "Set the link of the function up.");
            }
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
        let member =
            |name: String| Member { idle: blocked(walk, &name).or_else(|| link_down(walk, &name)), name };
        let members = out.into_iter().map(member).collect();
        let division = Division::Unpromised("the address table selects the port of each packet");
        let mut stack = Members { members, division, kind: "bridge".to_owned() };
        stack.keep_only_member();
        walk.follow_members(at, stack, Resource::Net, &source);
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
            let kind = self.kind(walk);
            let what = format!(
                "Not followed: it is a virtual interface{} without a device below it.",
                match kind.as_str() {
                    "" => String::new(),
                    kind => format!(" ({kind})"),
                }
            );
            let remedy = "Name the outgoing network interface of its packets, or the peer as host:NAME.";
            return walk.dead_end(at, "near-software", self.name, &what, remedy);
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
        let hardware = walk.text(&format!("{}/type", self.path)).unwrap_or_default();
        matches!(self.kind(walk).as_str(), "vlan" | "vxlan" | "macvlan" | "ipvlan")
            || TUNNELS.contains(&hardware.as_str())
            || walk.root().exists(&format!("/proc/net/vlan/{}", self.name))
    }

    /// Returns its kind from `uevent` (`vlan`, `bond`, `bridge`) or from its files.
    fn kind(&self, walk: &Walk) -> String {
        let uevent = walk.text(&format!("{}/uevent", self.path)).unwrap_or_default();
        uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).unwrap_or_default().to_owned()
    }
}

/// Returns the state in which spanning tree or the administrator blocks a port of a bridge
/// (`include/uapi/linux/if_bridge.h`: `BR_STATE_FORWARDING`).
fn blocked(walk: &Walk, name: &str) -> Option<String> {
    let state = walk.text(&format!("{NET}/{name}/brport/state"))?;
    (state != "3").then(|| "does not forward".to_owned())
}

/// Returns the state of an interface that cannot send: disabled, or without a link; `None` if it
/// can, or if its state is unknown.
fn link_down(walk: &Walk, name: &str) -> Option<String> {
    /// `IFF_UP` (`include/uapi/linux/if.h`).
    const UP: u32 = 1;
    let text = |file: &str| walk.text(&format!("{NET}/{name}/{file}"));
    let flags = text("flags").and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok());
    if flags.is_some_and(|flags| flags & UP == 0) {
        return Some("disabled".to_owned());
    }
    let is_down = |state: String| matches!(state.as_str(), "down" | "lowerlayerdown" | "notpresent");
    let has_no_link =
        text("operstate").is_some_and(is_down) || text("carrier").is_some_and(|link| link == "0");
    has_no_link.then(|| "link down".to_owned())
}
