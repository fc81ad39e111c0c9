//! Replies of rtnetlink(7), as the kernel sends them.

use numaio_linux::rtnetlink::{reply, request, NextHop, Reply, Route, FIB_MATCH, LOOKUP_TABLE};
use std::net::IpAddr;

/// Decodes a reply to a route query.
pub fn netlink(input: &[u8]) {
    let decoded = reply(input);
    let length = input.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    match input.get(..length) {
        Some(first) => assert_eq!(reply(first), decoded, "bytes after the first message have an effect"),
        None => assert_eq!(decoded, Reply::Other, "the message is incomplete"),
    }
    match decoded {
        Reply::Route(route) => {
            assert!(route.next_hops.iter().all(|hop| (1..=256).contains(&hop.weight)));
            assert!(route.next_hops.len() <= input.len() / 8);
            assert_eq!(
                reply(&message_of(&route)),
                Reply::Route(route),
                "an encoded route decodes to another"
            );
        }
        // The range of the kernel's error numbers (include/linux/err.h).
        Reply::Error(number) => assert!((1..=4_095).contains(&number), "{number}"),
        Reply::Other => {}
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() as u16 + 4;
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Encodes a route with several next hops (`struct rtnexthop`) as the kernel does.
fn message_of(route: &Route) -> Vec<u8> {
    let mut next_hops = Vec::new();
    for hop in &route.next_hops {
        let gateway = hop.gateway.map(|gateway| attribute(5, &octets(gateway))).unwrap_or_default();
        next_hops.extend((gateway.len() as u16 + 8).to_ne_bytes());
        next_hops.extend([0, (hop.weight - 1) as u8]);
        next_hops.extend(hop.interface.to_ne_bytes());
        next_hops.extend(gateway);
    }
    let mut body = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    body.extend(attribute(15, &route.table.to_ne_bytes()));
    body.extend(route.source.map(|source| attribute(7, &octets(source))).unwrap_or_default());
    body.extend(attribute(9, &next_hops));
    message(24, &body)
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = 16 + body.len() as u32;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

/// Returns the seeds of the target `netlink`: routes, an error, and a request instead of a reply.
pub fn seeds() -> Vec<Vec<u8>> {
    let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([1; 16]));
    let hop = |interface, gateway, weight| NextHop { interface, gateway, weight };
    let route = Route {
        next_hops: vec![hop(2, Some(four), 3), hop(4, Some(six), 1)],
        source: Some(four),
        table: 254,
    };
    let attributes =
        [attribute(4, &7u32.to_ne_bytes()), attribute(5, &octets(four)), attribute(7, &octets(four))]
            .concat();
    let single = [&[2, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0][..], &attributes].concat();
    let error = message(2, &(-101i32).to_ne_bytes());
    vec![message_of(&route), message(24, &single), error, request(six, Some(six), FIB_MATCH | LOOKUP_TABLE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_decoded() {
        let seeds = seeds();
        let next_hops = |seed: &[u8]| match reply(seed) {
            Reply::Route(route) => route.next_hops.len(),
            _ => 0,
        };
        assert_eq!((next_hops(&seeds[0]), next_hops(&seeds[1])), (2, 1));
        assert_eq!((reply(&seeds[2]), reply(&seeds[3])), (Reply::Error(101), Reply::Other));
    }
}
