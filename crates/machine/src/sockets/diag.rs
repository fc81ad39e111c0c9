//! Lists of TCP sockets by sock_diag(7): encoding of requests, decoding of replies
//! (`include/uapi/linux/inet_diag.h`, `tcp.h`).

use crate::netlink::{self, attributes, long, message, messages, number, AF_INET, AF_INET6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPPROTO_TCP: u8 = 6;
/// Attribute with `struct tcp_info`; the request has a bit for it.
const INET_DIAG_INFO: u16 = 2;
/// Length of `struct inet_diag_msg`.
const SOCKET: usize = 72;
/// States in which a program may move data: established, closed by this side for sending only
/// (FIN-WAIT-1 and 2), or closed by the peer (`include/net/tcp_states.h`).
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

/// Offsets in `struct inet_diag_msg`.
mod field {
    /// Local address.
    pub const SOURCE: usize = 8;
    /// Address of the peer.
    pub const DESTINATION: usize = 24;
    /// Index of the bound interface.
    pub const INTERFACE: usize = 40;
    /// Number of the socket.
    pub const COOKIE: usize = 44;
    /// Inode of the socket.
    pub const INODE: usize = 68;
}

/// Offsets in `struct tcp_info`, which grows with the kernel.
mod info {
    /// Linux 4.1.
    pub const ACKED: usize = 120;
    /// Linux 4.1.
    pub const RECEIVED: usize = 128;
    /// With retransmissions; Linux 4.19.
    pub const SENT: usize = 200;
}

/// Family of addresses to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6, with IPv4 peers of dual-stack sockets.
    V6,
}

/// Bytes that a socket moved since it was connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketBytes {
    /// Bytes received in order.
    pub received: u64,
    /// Bytes sent with retransmissions; before Linux 4.19 those that the peer acknowledged.
    pub sent: u64,
}

/// A connected TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketSample {
    /// Number that is unique within a boot.
    pub cookie: u64,
    /// Inode, as links of /proc/PID/fd show it.
    pub inode: u64,
    /// Local address; IPv4 addresses of dual-stack sockets are plain.
    pub local: IpAddr,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Index of the interface to which it is bound; 0 if it is not.
    pub interface: u32,
    /// Its counters.
    pub bytes: SocketBytes,
}

/// The connected TCP sockets of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketDump {
    /// The sockets, without those that no file refers to any more.
    pub sockets: Vec<SocketSample>,
    /// Whether a limit left out some.
    pub is_truncated: bool,
}

/// How far a dump is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpState {
    /// More datagrams follow.
    Incomplete,
    /// All sockets were listed.
    Complete,
    /// The kernel's error number.
    Failed(i32),
}

/// Encodes a request for all connected TCP sockets with their counters.
pub fn dump_request(family: AddressFamily) -> Vec<u8> {
    let family = match family {
        AddressFamily::V4 => AF_INET,
        AddressFamily::V6 => AF_INET6,
    };
    let mut body = vec![family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0];
    body.extend(STATES.to_ne_bytes());
    // A socket id of zeros matches all.
    body.resize(56, 0);
    message(SOCK_DIAG_BY_FAMILY, netlink::NLM_F_REQUEST | netlink::NLM_F_DUMP, &body)
}

/// Appends the sockets of a datagram that have counters and an inode.
pub fn parse_dump(bytes: &[u8], sockets: &mut Vec<SocketSample>) -> DumpState {
    for message in messages(bytes) {
        match message.kind {
            SOCK_DIAG_BY_FAMILY => sockets.extend(parse_socket(message.body)),
            netlink::NLMSG_DONE | netlink::NLMSG_ERROR => {
                return netlink::error_number(message.body).map_or(DumpState::Complete, DumpState::Failed);
            }
            _ => {}
        }
    }
    DumpState::Incomplete
}

fn parse_socket(body: &[u8]) -> Option<SocketSample> {
    let (family, inode) = (*body.first()?, number(body, field::INODE)?);
    let info = attributes(body.get(SOCKET..)?).find(|(kind, _)| *kind == INET_DIAG_INFO)?.1;
    let acked = long(info, info::ACKED)?;
    let bytes =
        SocketBytes { received: long(info, info::RECEIVED)?, sent: long(info, info::SENT).unwrap_or(acked) };
    (inode != 0).then_some(SocketSample {
        cookie: long(body, field::COOKIE)?,
        inode: inode.into(),
        local: address(family, body, field::SOURCE)?,
        peer: address(family, body, field::DESTINATION)?,
        interface: number(body, field::INTERFACE)?,
        bytes,
    })
}

fn address(family: u8, body: &[u8], at: usize) -> Option<IpAddr> {
    let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
    match family {
        AF_INET => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        AF_INET6 => Some(Ipv6Addr::from(bytes).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes a socket as the kernel does, with `length` bytes of `struct tcp_info`.
    fn socket(family: u8, local: [u8; 16], cookie: u64, inode: u32, length: usize) -> Vec<u8> {
        let mut body = vec![0; SOCKET];
        (body[0], body[1]) = (family, 1);
        body[field::SOURCE..field::SOURCE + 16].copy_from_slice(&local);
        body[field::DESTINATION..field::DESTINATION + 4].copy_from_slice(&[10, 0, 0, 9]);
        body[field::INTERFACE..field::INTERFACE + 4].copy_from_slice(&3u32.to_ne_bytes());
        body[field::COOKIE..field::COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
        body[field::INODE..field::INODE + 4].copy_from_slice(&inode.to_ne_bytes());
        let mut info = vec![0; 248];
        for (at, value) in [(info::ACKED, 11u64), (info::RECEIVED, 22), (info::SENT, 33)] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        info.truncate(length);
        // Another attribute precedes it.
        body.extend([5u16.to_ne_bytes(), 8u16.to_ne_bytes()].concat());
        body.extend([7, 0, 0, 0]);
        body.extend([(length as u16 + 4).to_ne_bytes(), INET_DIAG_INFO.to_ne_bytes()].concat());
        body.extend(info);
        message(SOCK_DIAG_BY_FAMILY, 2, &body)
    }

    fn v4() -> [u8; 16] {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[10, 0, 0, 2]);
        address
    }

    #[test]
    fn decodes_sockets_and_the_end_of_a_dump() {
        let mapped = "::ffff:10.0.0.3".parse::<Ipv6Addr>().expect("an address").octets();
        let bytes = [
            socket(AF_INET, v4(), 0x1_0000_0007, 70, 248),
            socket(AF_INET6, mapped, 8, 71, 136),
            // Without inode, without received bytes, of another family.
            socket(AF_INET, v4(), 9, 0, 248),
            socket(AF_INET, v4(), 9, 72, 128),
            socket(1, v4(), 9, 73, 248),
        ]
        .concat();
        let mut sockets = Vec::new();
        assert_eq!(parse_dump(&bytes, &mut sockets), DumpState::Incomplete);
        let first = SocketSample {
            cookie: 0x1_0000_0007,
            inode: 70,
            local: [10, 0, 0, 2].into(),
            peer: [10, 0, 0, 9].into(),
            interface: 3,
            bytes: SocketBytes { received: 22, sent: 33 },
        };
        assert_eq!(sockets.len(), 2, "{sockets:?}");
        assert_eq!(sockets[0], first);
        assert_eq!(sockets[1].local, IpAddr::from([10, 0, 0, 3]));
        assert_eq!(sockets[1].bytes.sent, 11, "old kernels count acknowledged bytes only");
        let end = |kind, error: i32| message(kind, 2, &error.to_ne_bytes());
        assert_eq!(parse_dump(&end(netlink::NLMSG_DONE, 0), &mut sockets), DumpState::Complete);
        assert_eq!(parse_dump(&end(netlink::NLMSG_DONE, -2), &mut sockets), DumpState::Failed(2));
        assert_eq!(parse_dump(&end(netlink::NLMSG_ERROR, -2), &mut sockets), DumpState::Failed(2));
    }

    #[test]
    fn request_asks_for_counters_of_connected_sockets() {
        let request = dump_request(AddressFamily::V6);
        assert_eq!((request.len(), number(&request, 0)), (72, Some(72)));
        assert_eq!(request[16..20], [AF_INET6, IPPROTO_TCP, 2, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_dumps_neither_panic_nor_invent_sockets(
            random in proptest::collection::vec(any::<u8>(), 0..400),
            at in 0..400usize,
            byte: u8,
        ) {
            let mut sockets = Vec::new();
            parse_dump(&random, &mut sockets);
            let mut bytes = [socket(AF_INET, v4(), 7, 70, 248), socket(AF_INET6, [1; 16], 8, 71, 248)].concat();
            bytes[at] = byte;
            sockets.clear();
            parse_dump(&bytes, &mut sockets);
            prop_assert!(sockets.len() <= 2);
            sockets.clear();
            parse_dump(&bytes[..at], &mut sockets);
            prop_assert!(sockets.len() <= 1);
        }
    }
}
