//! Rates of sockets: the difference of two lists.

use super::diag::{SocketBytes, SocketDump, SocketSample};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Bytes per second through sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrafficRates {
    /// From the network to memory.
    pub received: f64,
    /// From memory to the network.
    pub sent: f64,
}

impl TrafficRates {
    /// Returns the sum of both directions.
    pub fn total(self) -> f64 {
        self.received + self.sent
    }

    /// Adds a share of other rates.
    pub fn add(&mut self, other: Self, share: f64) {
        self.received += other.received * share;
        self.sent += other.sent * share;
    }
}

/// A socket that moved data between two lists.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketRate {
    /// Number that is unique within a boot.
    pub cookie: u64,
    /// Inode, as links of /proc/PID/fd show it.
    pub inode: u64,
    /// Local address.
    pub local: IpAddr,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Index of the interface to which it is bound; 0 if it is not.
    pub interface: u32,
    /// Its rates; at least one is above 0.
    pub rates: TrafficRates,
}

/// Lists of sockets, each compared with the one before.
///
/// Bytes that a socket moves after its last list are not counted, so that short connections are
/// missing.
#[derive(Debug, Default)]
pub struct SocketWatch {
    before: Option<EarlierDump>,
}

#[derive(Debug)]
struct EarlierDump {
    bytes: HashMap<u64, SocketBytes>,
    at: Duration,
    is_truncated: bool,
}

impl SocketWatch {
    /// Returns the sockets that moved data since the last call; `None` at the first one, and if no
    /// time passed. `at` is the time since any fixed moment.
    ///
    /// A socket that is new moved all its bytes since then. One whose counters decreased has no
    /// rate in this interval.
    pub fn observe(&mut self, dump: &SocketDump, at: Duration) -> Option<Vec<SocketRate>> {
        let bytes = dump.sockets.iter().map(|socket| (socket.cookie, socket.bytes)).collect();
        let now = EarlierDump { bytes, at, is_truncated: dump.is_truncated };
        let before = self.before.replace(now)?;
        let seconds = at.saturating_sub(before.at).as_secs_f64();
        (seconds > 0.0)
            .then(|| dump.sockets.iter().filter_map(|socket| rate(&before, socket, seconds)).collect())
    }
}

fn rate(before: &EarlierDump, socket: &SocketSample, seconds: f64) -> Option<SocketRate> {
    let earlier = match before.bytes.get(&socket.cookie) {
        Some(bytes) => *bytes,
        // A socket that was left out may be old.
        None if before.is_truncated => return None,
        None => SocketBytes::default(),
    };
    let received = socket.bytes.received.checked_sub(earlier.received)?;
    let sent = socket.bytes.sent.checked_sub(earlier.sent)?;
    let rates = TrafficRates { received: received as f64 / seconds, sent: sent as f64 / seconds };
    (received > 0 || sent > 0).then_some(SocketRate {
        cookie: socket.cookie,
        inode: socket.inode,
        local: socket.local,
        peer: socket.peer,
        interface: socket.interface,
        rates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(sockets: &[(u64, u64, u64)]) -> SocketDump {
        let sample = |(cookie, received, sent): &(u64, u64, u64)| SocketSample {
            cookie: *cookie,
            inode: cookie + 100,
            local: [10, 0, 0, 2].into(),
            peer: [10, 0, 0, 9].into(),
            interface: 0,
            bytes: SocketBytes { received: *received, sent: *sent },
        };
        SocketDump { sockets: sockets.iter().map(sample).collect(), is_truncated: false }
    }

    fn rates(found: Option<Vec<SocketRate>>) -> Vec<(u64, f64, f64)> {
        let found = found.expect("rates");
        found.iter().map(|socket| (socket.cookie, socket.rates.received, socket.rates.sent)).collect()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sockets_that_come_and_go_have_no_negative_rates() {
        let mut watch = SocketWatch::default();
        assert_eq!(watch.observe(&dump(&[(1, 1000, 10), (2, 5000, 0), (3, 7, 7)]), seconds(0)), None);
        // 1 moves, 2 ended, 3 is idle, 4 is new.
        let second = watch.observe(&dump(&[(1, 3000, 10), (3, 7, 7), (4, 0, 600)]), seconds(2));
        assert_eq!(rates(second), [(1, 1000.0, 0.0), (4, 0.0, 300.0)]);
        // The counters of 1 restart.
        let third = watch.observe(&dump(&[(1, 100, 10), (3, 7, 9), (4, 0, 600)]), seconds(4));
        assert_eq!(rates(third), [(3, 0.0, 1.0)]);
        let fourth = watch.observe(&dump(&[(1, 300, 10)]), seconds(6));
        assert_eq!(rates(fourth), [(1, 100.0, 0.0)]);
        assert_eq!(watch.observe(&dump(&[(1, 900, 10)]), seconds(6)), None, "no time passed");
    }

    #[test]
    fn sockets_beyond_the_limit_are_not_taken_for_new_ones() {
        let mut watch = SocketWatch::default();
        watch.observe(&SocketDump { is_truncated: true, ..dump(&[(1, 0, 0)]) }, seconds(0));
        let second = watch.observe(&dump(&[(1, 0, 2), (2, 1 << 40, 0)]), seconds(1));
        assert_eq!(rates(second), [(1, 0.0, 2.0)]);
    }
}
