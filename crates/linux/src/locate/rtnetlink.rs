//! Route messages of rtnetlink(7): encoding of requests and decoding of replies.

use numaio_machine::netlink::{
    aligned, attributes, error_number, message, messages, number, short, NetlinkMessage, AF_INET, AF_INET6,
    NLMSG_ERROR, NLM_F_REQUEST,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ROUTE: usize = 12;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Dead or without carrier (`RTNH_F_DEAD`, `RTNH_F_LINKDOWN`): the kernel skips these next hops.
const UNUSABLE: u8 = 1 | 16;

/// Attributes of a route (`include/uapi/linux/rtnetlink.h`).
mod attribute {
    /// Destination address.
    pub const DST: u16 = 1;
    /// Source address of the request.
    pub const SRC: u16 = 2;
    /// Output interface index.
    pub const OIF: u16 = 4;
    /// Gateway address.
    pub const GATEWAY: u16 = 5;
    /// Preferred source address.
    pub const PREFSRC: u16 = 7;
    /// Next hops.
    pub const MULTIPATH: u16 = 9;
    /// Routing table.
    pub const TABLE: u16 = 15;
    /// Gateway of another address family.
    pub const VIA: u16 = 18;
}

/// Requests the table of the lookup (`RTM_F_LOOKUP_TABLE`).
pub const LOOKUP_TABLE: u32 = 0x1000;
/// Requests the complete route of the table with all next hops (`RTM_F_FIB_MATCH`, Linux 4.13).
pub const FIB_MATCH: u32 = 0x2000;

/// A route of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Usable next hops.
    pub next_hops: Vec<NextHop>,
    /// Source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// Routing table.
    pub table: u32,
}

/// A next hop of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Interface index.
    pub interface: u32,
    /// Gateway, or `None` if the address is reached directly.
    pub gateway: Option<IpAddr>,
    /// Weight from 1 to 256.
    pub weight: u32,
}

/// A decoded reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The requested route.
    Route(Route),
    /// The kernel's error number.
    Error(i32),
    /// An unknown or malformed message.
    Other,
}

/// Encodes a request for the route to an address, from an address if known.
pub fn request(to: IpAddr, from: Option<IpAddr>, flags: u32) -> Vec<u8> {
    let (family, bits) = match to {
        IpAddr::V4(_) => (AF_INET, 32),
        IpAddr::V6(_) => (AF_INET6, 128),
    };
    let mut body = vec![family, bits, if from.is_some() { bits } else { 0 }, 0, 0, 0, 0, 0];
    body.extend(flags.to_ne_bytes());
    push_address(&mut body, attribute::DST, to);
    if let Some(from) = from {
        push_address(&mut body, attribute::SRC, from);
    }
    message(RTM_GETROUTE, NLM_F_REQUEST, &body)
}

/// Appends an address; 4 or 16 bytes need no padding.
fn push_address(message: &mut Vec<u8>, kind: u16, address: IpAddr) {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    message.extend((bytes.len() as u16 + 4).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(bytes);
}

/// Decodes the first message of a reply.
pub fn reply(bytes: &[u8]) -> Reply {
    let Some(NetlinkMessage { kind, body }) = messages(bytes).next() else { return Reply::Other };
    match kind {
        // An acknowledgment was not requested.
        NLMSG_ERROR => error_number(body).map_or(Reply::Other, Reply::Error),
        RTM_NEWROUTE => route(body).map_or(Reply::Other, Reply::Route),
        _ => Reply::Other,
    }
}

fn route(body: &[u8]) -> Option<Route> {
    let table = *body.get(4)?;
    let mut route = Route { table: table.into(), ..Route::default() };
    let mut next_hop = NextHop { interface: 0, gateway: None, weight: 1 };
    for (kind, value) in attributes(body.get(ROUTE..)?) {
        match kind {
            attribute::OIF => next_hop.interface = number(value, 0)?,
            attribute::PREFSRC => route.source = address(value),
            attribute::TABLE => route.table = number(value, 0)?,
            attribute::MULTIPATH => route.next_hops = next_hops(value),
            kind => next_hop.gateway = gateway(kind, value).or(next_hop.gateway),
        }
    }
    if route.next_hops.is_empty() && next_hop.interface != 0 {
        route.next_hops.push(next_hop);
    }
    Some(route)
}

/// Returns the usable next hops of a multipath route (`struct rtnexthop`).
fn next_hops(mut bytes: &[u8]) -> Vec<NextHop> {
    let mut next_hops = Vec::new();
    while let (Some(length), [_, _, flags, hops, ..], Some(interface)) =
        (short(bytes, 0), bytes, number(bytes, 4))
    {
        let length = usize::from(length);
        let Some(inner) = bytes.get(8..length) else { break };
        let gateway = attributes(inner).find_map(|(kind, value)| gateway(kind, value));
        if flags & UNUSABLE == 0 {
            next_hops.push(NextHop { interface, gateway, weight: u32::from(*hops) + 1 });
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    next_hops
}

/// Decodes a gateway of the same or the other address family.
fn gateway(kind: u16, value: &[u8]) -> Option<IpAddr> {
    match kind {
        attribute::GATEWAY => address(value),
        attribute::VIA => address(value.get(2..)?),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::netlink::HEADER;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = value.len() as u16 + 4;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body];
        head.concat()
    }

    fn hop(flags: u8, weight: u8, interface: u32, attributes: &[u8]) -> Vec<u8> {
        let length = 8 + attributes.len() as u16;
        [&length.to_ne_bytes()[..], &[flags, weight - 1], &interface.to_ne_bytes(), attributes].concat()
    }

    fn newroute(attributes: &[Vec<u8>]) -> Vec<u8> {
        let route = [AF_INET, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        message(RTM_NEWROUTE, &[&route[..], &attributes.concat()].concat())
    }

    #[test]
    fn decodes_a_single_next_hop() {
        let bytes = newroute(&[
            attribute(attribute::TABLE, &1000u32.to_ne_bytes()),
            attribute(attribute::OIF, &7u32.to_ne_bytes()),
            attribute(attribute::GATEWAY, &[10, 0, 0, 1]),
            attribute(attribute::PREFSRC, &[10, 0, 0, 2]),
        ]);
        let Reply::Route(route) = reply(&bytes) else { panic!("a route") };
        let gateway = Some([10, 0, 0, 1].into());
        assert_eq!(route.next_hops, [NextHop { interface: 7, gateway, weight: 1 }]);
        assert_eq!((route.source, route.table), (Some([10, 0, 0, 2].into()), 1000));
    }

    #[test]
    fn decodes_several_next_hops_without_dead_ones() {
        let via = [&AF_INET6.to_ne_bytes()[..], &[0], &Ipv6Addr::LOCALHOST.octets()].concat();
        let hops = [
            hop(0, 3, 2, &attribute(attribute::GATEWAY, &[10, 0, 0, 1])),
            hop(16, 1, 3, &[]),
            hop(0, 1, 4, &attribute(attribute::VIA, &via)),
        ];
        let Reply::Route(route) = reply(&newroute(&[attribute(attribute::MULTIPATH, &hops.concat())])) else {
            panic!("a route")
        };
        let found: Vec<_> = route
            .next_hops
            .iter()
            .map(|next_hop| (next_hop.interface, next_hop.weight, next_hop.gateway))
            .collect();
        let v6 = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!(found, [(2, 3, Some([10, 0, 0, 1].into())), (4, 1, v6)]);
    }

    #[test]
    fn decodes_errors_and_rejects_malformed_messages() {
        assert_eq!(reply(&message(NLMSG_ERROR, &(-101i32).to_ne_bytes())), Reply::Error(101));
        for no_error in [0, 1, -4096, i32::MIN] {
            assert_eq!(reply(&message(NLMSG_ERROR, &no_error.to_ne_bytes())), Reply::Other, "{no_error}");
        }
        assert_eq!(reply(&message(99, &[])), Reply::Other);
        assert_eq!(reply(&[]), Reply::Other);
    }

    #[test]
    fn truncated_or_changed_replies_neither_panic_nor_loop() {
        let hops = hop(0, 1, 2, &attribute(attribute::GATEWAY, &[10, 0, 0, 1]));
        let whole = newroute(&[attribute(attribute::MULTIPATH, &hops), attribute(attribute::OIF, &[0; 4])]);
        for end in 0..whole.len() {
            reply(&whole[..end]);
            for byte in [0, 1, 3, 8, 255] {
                let mut changed = whole.clone();
                changed[end] = byte;
                reply(&changed);
            }
        }
    }
}
