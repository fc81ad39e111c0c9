//! Network interfaces by address (getifaddrs(3)), with their devices and nodes.

use super::protocol::Interface;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{self, Handle, ResolveContext};
use numaio_machine::network;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Returns the local interface with an address, or `None`.
pub fn by_address(address: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is to a local value, which is set to a list that we own on success.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = first;
    while !next.is_null() && found.is_none() {
        // SAFETY: an entry of the list, which is not freed yet.
        let entry = unsafe { &*next };
        // SAFETY: the address of an entry is null or a complete socket address of its family.
        if unsafe { ip(entry.ifa_addr) } == Some(canonical(address)) {
            // SAFETY: the name of an entry is a null-terminated string.
            found = Some(unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned());
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list was made by getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// Device and node of a network interface or RDMA device; bonds and bridges are resolved.
#[derive(Debug, Clone, Copy)]
pub struct InterfaceLocation<'a> {
    /// The first device, `None` for the loopback.
    pub device: Option<&'a Device>,
    /// The node of all its devices, or `None` if unknown or if they are on several nodes.
    pub node: Option<NodeId>,
}

/// Resolves an interface or RDMA device name to its devices.
pub fn locate_interface<'a>(ground: ResolveContext<'a>, name: &str) -> InterfaceLocation<'a> {
    let found = near::resolve(ground, &Handle::Name(name.to_owned()));
    let first = found.devices.first().map(|device| device.index);
    let node = match found.nodes.as_slice() {
        [only] => Some(only.node),
        _ => None,
    };
    InterfaceLocation { device: first.and_then(|index| ground.topology.devices.get(index)), node }
}

/// Describes an interface with its node and interrupts.
pub fn describe(ground: ResolveContext, name: String) -> Interface {
    let InterfaceLocation { device, node } = locate_interface(ground, &name);
    let irqs = device.map(|device| device.irqs.clone()).unwrap_or_default();
    Interface { node, irqs, mtu: network::mtu(ground.root, &name), name }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// # Safety
/// The pointer is null or points to a complete socket address of its family.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: addresses of this family are a sockaddr_in, at any alignment.
            let v4: libc::sockaddr_in = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: addresses of this family are a sockaddr_in6, at any alignment.
            let v6: libc::sockaddr_in6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_loopback_but_no_documentation_address() {
        let name = |address: &str| by_address(address.parse().expect("an address"));
        assert_eq!(name("127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(name("::ffff:127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(name("192.0.2.1"), None);
    }
}
