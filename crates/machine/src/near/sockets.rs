//! Sockets of a process and their peers, from files such as /proc/PID/net/tcp
//! (`Documentation/networking/proc_net_tcp.rst`).

use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// Maximum number of sockets to read per file.
const MAX_SOCKETS: usize = 1 << 18;

/// State of an established TCP connection or a connected UDP socket (`include/net/tcp_states.h`).
const ESTABLISHED: &str = "01";

/// Files of connections in /proc/PID/net.
const FILES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];

/// The connections of this process's network namespace, listed at the first use.
#[derive(Debug, Default)]
pub struct OwnConnections(OnceLock<HashMap<u64, IpAddr>>);

impl OwnConnections {
    /// Returns the peers of connected sockets, by inode.
    pub(super) fn peers(&self, root: &dyn Sysfs) -> &HashMap<u64, IpAddr> {
        self.0.get_or_init(|| peers(root, "/proc/self/net"))
    }
}

/// Reads the peers of connected sockets, by inode, from the files of a directory.
pub(super) fn peers(root: &dyn Sysfs, folder: &str) -> HashMap<u64, IpAddr> {
    let text = |file: &&str| root.optional(&format!("{folder}/{file}")).unwrap_or_default();
    FILES.iter().flat_map(|file| parse(&text(file))).collect()
}

/// Returns inodes and peers of connected sockets, skipping malformed lines.
fn parse(text: &str) -> Vec<(u64, IpAddr)> {
    text.lines().skip(1).take(MAX_SOCKETS).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(u64, IpAddr)> {
    let mut fields = line.split_whitespace().skip(2);
    let peer = address(fields.next()?.split(':').next()?)?;
    let state = fields.next()?;
    let inode = fields.nth(5)?.parse().ok()?;
    (state == ESTABLISHED && !peer.is_unspecified()).then_some((inode, peer))
}

/// Parses an address in the kernel's format: 32-bit words in the machine's byte order.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = digits.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match digits.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            // A dual-stack socket shows IPv4 peers as `::ffff:10.0.0.1`.
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn peers_of_connections_that_stand() {
        let text = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   1: 0200000A:A1B2 0900000A:0801 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1
   2: 0200000A:A1B3 0900000A:0801 06 00000000:00000000 00:00000000 00000000  1000        0 0 1 0 20 4 30 10 -1
";
        assert_eq!(parse(text), [(4711, "10.0.0.9".parse().expect("an address"))]);
        let text = "head\n 0: 000080FE000000000000000001000000:1F90 0000000000000000FFFF00000900000A:0801 01 0:0 0:0 0 0 0 99 1\n 1: 0:1 000000FD000000000000000001000000:0801 01 0:0 0:0 0 0 0 98 1\n";
        let peers: Vec<String> = parse(text).iter().map(|(_, peer)| peer.to_string()).collect();
        assert_eq!(peers, ["10.0.0.9", "fd00::1"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\PC|[0-9A-F: \n]){0,200}") {
            parse(&format!("head\n{text}"));
        }
    }
}
