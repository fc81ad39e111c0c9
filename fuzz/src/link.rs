//! What comes over a link, and from the kernel, as the real machine reads it.

use numaio_linux::port::{read_packet, write_packet, LinkError, Pool};
use numaio_linux::rtnetlink::{reply, request, Reply, Route, FIB_MATCH, LOOKUP_TABLE};
use numaio_machine::port::{Event, Packet, BLOCK, MAX_FRAME_BYTES};
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};

/// Few, so that one that is not given back is missed.
static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(2));

/// A stream that gives so many bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        self.rest.read(&mut buffer[..most])
    }
}

/// Packets of a stream, in pieces of a length that the first byte tells. What was read is what is written of it.
pub fn link(input: &[u8]) {
    let Some((&most, bytes)) = input.split_first() else { return };
    let mut from = Pieces { rest: bytes, most: usize::from(most).max(1) };
    let (events, sent) = channel();
    let mut again = Vec::new();
    loop {
        let before = again.len();
        match read_packet(&mut from, &POOL, LinkError::Closed) {
            Ok(packet) => {
                let length = packet.data.as_ref().map(|(_, length)| *length);
                assert!(
                    packet.frames.len() <= MAX_FRAME_BYTES
                        && length.is_none_or(|length| (1..=BLOCK).contains(&length))
                );
                write_packet(&mut again, &[], packet, &events).expect("memory takes it");
                let told = sent.try_iter().map(|event| match event {
                    Event::Sent(length) => length,
                    other => panic!("{other:?} is not about what is sent"),
                });
                assert!(told.eq(length), "who sends hears of data, once");
                assert_eq!(bytes.len() - from.rest.len(), again.len(), "no byte more was read");
            }
            Err(LinkError::Closed) => break assert!(from.rest.is_empty() && again.len() == bytes.len()),
            Err(LinkError::Truncated) => break assert!(from.rest.is_empty() && again.len() < bytes.len()),
            Err(LinkError::TooLong { frames, data }) => {
                assert!(frames as usize > MAX_FRAME_BYTES || data as usize > BLOCK);
                assert_eq!(bytes.len() - from.rest.len(), before + 8, "nothing of it was read");
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(bytes.starts_with(&again), "it is written as it came");
}

/// A packet without data, and one with.
fn packets() -> Vec<Packet<Vec<u8>>> {
    let packet = |frames: &[u8], data: Option<&[u8]>| Packet {
        frames: frames.to_vec(),
        data: data.map(|data| (data.to_vec(), data.len())),
    };
    vec![packet(b"frames", Some(b"data of a file")), packet(b"x", None), packet(b"", Some(b"y"))]
}

/// Packets as they stand on a stream; in front of each its number, if they are numbered.
pub fn stream_of(numbers: impl IntoIterator<Item = Option<u64>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, packet) in numbers.into_iter().zip(packets().iter().cycle()) {
        let data = packet.data.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        bytes.extend(number.into_iter().flat_map(u64::to_be_bytes));
        bytes.extend((packet.frames.len() as u32).to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend([&packet.frames, data].concat());
    }
    bytes
}

/// What the target `link` begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let long = [&[9][..], &stream_of([None]), &u32::MAX.to_be_bytes(), &[0; 4]].concat();
    vec![[&[200][..], &stream_of([None; 4])].concat(), long]
}

/// A reply of rtnetlink(7) to the question where a route leads.
pub fn netlink(input: &[u8]) {
    let told = reply(input);
    let length = input.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    match input.get(..length) {
        Some(first) => assert_eq!(reply(first), told, "what follows the first message says nothing"),
        None => assert_eq!(told, Reply::Other, "it is not whole"),
    }
    match told {
        Reply::Route(route) => {
            assert!(route.next_hops.iter().all(|way| (1..=256).contains(&way.weight)));
            assert!(route.next_hops.len() <= input.len() / 8);
            assert_eq!(reply(&message_of(&route)), Reply::Route(route), "it is read as it is written");
        }
        // Numbers of errors, as the kernel has them (include/linux/err.h).
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

/// A route as the kernel tells it, with several ways (`struct rtnexthop`).
fn message_of(route: &Route) -> Vec<u8> {
    let mut ways = Vec::new();
    for way in &route.next_hops {
        let gateway = way.gateway.map(|gateway| attribute(5, &octets(gateway))).unwrap_or_default();
        ways.extend((gateway.len() as u16 + 8).to_ne_bytes());
        ways.extend([0, (way.weight - 1) as u8]);
        ways.extend(way.interface.to_ne_bytes());
        ways.extend(gateway);
    }
    let mut body = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    body.extend(attribute(15, &route.table.to_ne_bytes()));
    body.extend(route.source.map(|source| attribute(7, &octets(source))).unwrap_or_default());
    body.extend(attribute(9, &ways));
    message(24, &body)
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = 16 + body.len() as u32;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

/// What the target `netlink` begins with: routes, an error, and a question in place of an answer.
pub fn netlink_seeds() -> Vec<Vec<u8>> {
    let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([1; 16]));
    let way = |interface, gateway, weight| numaio_linux::rtnetlink::NextHop { interface, gateway, weight };
    let route = Route {
        next_hops: vec![way(2, Some(four), 3), way(4, Some(six), 1)],
        source: Some(four),
        table: 254,
    };
    let one = [attribute(4, &7u32.to_ne_bytes()), attribute(5, &octets(four)), attribute(7, &octets(four))]
        .concat();
    let single = [&[2, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0][..], &one].concat();
    let error = message(2, &(-101i32).to_ne_bytes());
    vec![message_of(&route), message(24, &single), error, request(six, Some(six), FIB_MATCH | LOOKUP_TABLE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_understood() {
        let seeds = netlink_seeds();
        let ways = |seed: &[u8]| match reply(seed) {
            Reply::Route(route) => route.next_hops.len(),
            _ => 0,
        };
        assert_eq!((ways(&seeds[0]), ways(&seeds[1])), (2, 1));
        assert_eq!((reply(&seeds[2]), reply(&seeds[3])), (Reply::Error(101), Reply::Other));
        let mut from = &stream_of([None; 4])[..];
        for _ in 0..4 {
            read_packet(&mut from, &POOL, LinkError::Closed).expect("a packet");
        }
        assert!(matches!(read_packet(&mut from, &POOL, LinkError::Closed), Err(LinkError::Closed)));
    }
}
