//! The order in which two hosts reserve threads for one transfer.

/// When a host reserves threads for a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOrder {
    /// No other broker takes part.
    Only,
    /// Before the other host.
    First,
    /// After the other host.
    Second,
}

impl HostOrder {
    /// Returns the order of a host with a peer.
    ///
    /// A transfer that holds threads of one host waits for threads of the other one. All transfers
    /// take the hosts in one order, so that no circle of transfers can wait for each other
    /// (Havender, 1968). `host` and `peer` are names that both hosts know and that differ, such as
    /// public keys.
    pub fn of(host: &[u8], peer: &[u8]) -> Self {
        if host < peer {
            Self::First
        } else {
            Self::Second
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_hosts_is_first() {
        let orders = [HostOrder::of(b"a", b"b"), HostOrder::of(b"b", b"a")];
        assert_eq!(orders, [HostOrder::First, HostOrder::Second]);
    }
}
