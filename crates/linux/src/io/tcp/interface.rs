//! Network interfaces by address (getifaddrs(3)), and what is behind them.

use super::protocol::Interface;
use numaio_machine::devices::Device;
use numaio_machine::ids::NodeId;
use numaio_machine::near::{self, Ground, Handle};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The interface that has an address; none if none has, as that of another host.
pub fn by_address(address: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is to a value that lives through the call, and is set to a list of ours on success.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = first;
    while !next.is_null() && found.is_none() {
        // SAFETY: an entry of the list, which is not freed yet.
        let entry = unsafe { &*next };
        // SAFETY: the address of an entry is null or a whole socket address of its family.
        if unsafe { ip(entry.ifa_addr) } == Some(canonical(address)) {
            // SAFETY: the name of an entry is a string that ends with a null byte.
            found = Some(unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned());
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list that getifaddrs made; nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// What an interface or an RDMA device stands for: `eth0` for its card, a bond or a bridge for what is below it.
#[derive(Debug, Clone, Copy)]
pub struct InterfaceLocation<'a> {
    /// The first of its devices; none of a loopback.
    pub device: Option<&'a Device>,
    /// The node of all its devices; none if there is none, or they are on several.
    pub node: Option<NodeId>,
}

/// Follows a name down to devices.
pub fn locate_interface<'a>(ground: Ground<'a>, name: &str) -> InterfaceLocation<'a> {
    let found = near::resolve(ground, &Handle::Name(name.to_owned()));
    let first = found.devices.first().map(|device| device.index);
    let node = match found.nodes.as_slice() {
        [only] => Some(only.node),
        _ => None,
    };
    InterfaceLocation { device: first.and_then(|index| ground.topology.devices.get(index)), node }
}

/// An interface with its node and interrupts.
pub fn describe(ground: Ground, name: String) -> Interface {
    let InterfaceLocation { device, node } = locate_interface(ground, &name);
    Interface { node, irqs: device.map(|device| device.irqs.clone()).unwrap_or_default(), name }
}

/// An IPv4 address that came as an IPv6 one is the IPv4 one.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// # Safety
/// Null, or a socket address that is as long as its family says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family it is a sockaddr_in; it may lie at any address.
            let v4: libc::sockaddr_in = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: of this family it is a sockaddr_in6; it may lie at any address.
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
    fn the_loopback_is_known_by_its_address_and_documentation_is_nobodys() {
        let name = |address: &str| by_address(address.parse().expect("an address"));
        assert_eq!(name("127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(name("::ffff:127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(name("192.0.2.1"), None);
    }
}
