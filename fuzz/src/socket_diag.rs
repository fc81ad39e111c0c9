//! Lists of sockets of sock_diag(7), as the kernel sends them.

use numaio_machine::netlink::{message, NLMSG_DONE};
use numaio_machine::sockets::{
    dump_request, parse_dump, AddressFamily, DumpState, SocketDump, SocketSample, SocketWatch,
};
use std::time::Duration;

/// Kind of a message with a socket (`SOCK_DIAG_BY_FAMILY`).
const SOCKET: u16 = 20;

/// Decodes two datagrams, and compares them; the first byte is the length of the first one.
pub fn socket_diag(input: &[u8]) {
    let Some((&length, bytes)) = input.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(length).min(bytes.len()));
    let mut watch = SocketWatch::default();
    watch.observe(&dump(first), Duration::ZERO);
    let rates = watch.observe(&dump(second), Duration::from_secs(2)).expect("two lists");
    for socket in &rates {
        let (received, sent) = (socket.rates.received, socket.rates.sent);
        assert!(received >= 0.0 && sent >= 0.0 && received + sent > 0.0, "{socket:?}");
    }
}

fn dump(bytes: &[u8]) -> SocketDump {
    let mut sockets: Vec<SocketSample> = Vec::new();
    if let DumpState::Failed(error) = parse_dump(bytes, &mut sockets) {
        assert!((1..=4_095).contains(&error), "{error}");
    }
    // Each socket has addresses and counters.
    assert!(sockets.len() <= bytes.len() / 200, "more sockets than bytes");
    assert!(sockets.iter().all(|socket| socket.inode != 0));
    SocketDump { sockets, is_truncated: false }
}

/// Encodes a socket with its counters as the kernel does.
fn socket(family: u8, cookie: u64, acked: u64, received: u64) -> Vec<u8> {
    let mut body = vec![0; 72];
    body[0] = family;
    body[8..12].copy_from_slice(&[10, 0, 0, 2]);
    body[24..28].copy_from_slice(&[10, 0, 0, 9]);
    body[44..52].copy_from_slice(&cookie.to_ne_bytes());
    body[68..72].copy_from_slice(&4711u32.to_ne_bytes());
    let mut info = vec![0; 136];
    info[120..128].copy_from_slice(&acked.to_ne_bytes());
    info[128..136].copy_from_slice(&received.to_ne_bytes());
    body.extend([140u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
    body.extend(info);
    message(SOCKET, 2, &body)
}

/// Returns the seeds of the target `socket-diag`: two lists, an end, and a request instead of a
/// reply.
pub fn seeds() -> Vec<Vec<u8>> {
    let first = socket(2, 7, 1, 2);
    let second = [socket(2, 7, 100, 2), message(NLMSG_DONE, 2, &[0; 4])].concat();
    let lists = [&[first.len() as u8][..], &first, &second].concat();
    let of_v6 = [&[0][..], &socket(10, 8, 1, 1 << 40)].concat();
    vec![lists, of_v6, [&[0][..], &dump_request(AddressFamily::V4)].concat()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_reach_the_rates() {
        let seeds = seeds();
        let (length, bytes) = seeds[0].split_first().expect("a seed");
        let (first, second) = bytes.split_at(usize::from(*length));
        let mut watch = SocketWatch::default();
        watch.observe(&dump(first), Duration::ZERO);
        let rates = watch.observe(&dump(second), Duration::from_secs(1)).expect("two lists");
        assert_eq!(rates[0].rates.sent, 99.0);
        assert_eq!(dump(&seeds[1][1..]).sockets.len(), 1);
    }
}
