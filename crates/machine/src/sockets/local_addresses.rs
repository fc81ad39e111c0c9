//! The network interface of a socket, by its local address.

use super::socket_rates::SocketRate;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;
use std::net::IpAddr;

/// Name of the loopback interface.
const LOOPBACK: &str = "lo";

/// An address of a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
}

/// Addresses and indexes of this machine's network interfaces.
#[derive(Debug, Clone, Default)]
pub struct LocalAddresses {
    by_address: HashMap<IpAddr, String>,
    by_index: HashMap<u32, String>,
}

/// The path of a socket's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketPath<'a> {
    /// By this interface.
    Interface(&'a str),
    /// Within the machine: they reach no device.
    Loopback,
    /// By the route to its peer: no interface but loopback has its address, as with addresses of
    /// load balancers.
    Route(IpAddr),
    /// Its address is new, or belongs to no interface.
    Unknown,
}

impl LocalAddresses {
    /// Combines addresses with the indexes of interfaces in /sys.
    pub fn new(root: &dyn Sysfs, addresses: Vec<InterfaceAddress>) -> Self {
        let index = |name: &String| root.value(&format!("/sys/class/net/{name}/ifindex")).ok();
        let names = root.names("/sys/class/net");
        let mut found = Self {
            by_index: names.into_iter().filter_map(|name| Some((index(&name)?, name))).collect(),
            by_address: HashMap::new(),
        };
        for InterfaceAddress { interface, address } in addresses {
            // An address that loopback has too is reached by the other interface.
            if interface != LOOPBACK || !found.by_address.contains_key(&address) {
                found.by_address.insert(address, interface);
            }
        }
        found
    }

    /// Returns the path of a socket.
    pub fn path_of(&self, socket: &SocketRate) -> SocketPath<'_> {
        if socket.local.is_loopback() || self.by_address.contains_key(&socket.peer) {
            return SocketPath::Loopback;
        }
        if let Some(bound) = self.by_index.get(&socket.interface) {
            return SocketPath::Interface(bound);
        }
        match self.by_address.get(&socket.local).map(String::as_str) {
            Some(LOOPBACK) => SocketPath::Route(socket.peer),
            Some(interface) => SocketPath::Interface(interface),
            None => SocketPath::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::socket_rates::TrafficRates;
    use super::*;
    use crate::tree::Tree;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn socket(local: &str, peer: &str, interface: u32) -> SocketRate {
        let rates = TrafficRates::default();
        SocketRate { cookie: 1, inode: 2, local: ip(local), peer: ip(peer), interface, rates }
    }

    #[test]
    fn finds_the_interface_of_a_socket() {
        let mut tree = Tree::new();
        tree.file("/sys/class/net/bond0/ifindex", "4\n").file("/sys/class/net/vlan7/ifindex", "5\n");
        let of = |interface: &str, address| InterfaceAddress { interface: interface.into(), address };
        let addresses = LocalAddresses::new(
            &tree,
            vec![
                of("lo", ip("127.0.0.1")),
                of("lo", ip("192.0.2.1")),
                of("bond0", ip("10.0.0.2")),
                of("lo", ip("10.0.0.2")),
                of("vlan7", ip("fd00::2")),
            ],
        );
        let path = |local, peer, interface| match addresses.path_of(&socket(local, peer, interface)) {
            SocketPath::Interface(name) => name.to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(path("10.0.0.2", "10.0.0.9", 0), "bond0");
        assert_eq!(path("fd00::2", "fd00::9", 0), "vlan7");
        assert_eq!(path("10.0.0.2", "10.0.0.9", 5), "vlan7", "the bound interface precedes the address");
        assert_eq!(path("10.0.0.2", "fd00::2", 0), "Loopback", "the peer is this machine");
        assert_eq!(path("127.0.0.1", "127.0.0.5", 0), "Loopback");
        assert_eq!(path("192.0.2.1", "10.0.0.9", 0), "Route(10.0.0.9)");
        assert_eq!(path("10.0.0.77", "10.0.0.9", 9), "Unknown");
    }
}
