//! The order in which two hosts reserve threads for one transfer.

/// Returns whether a host reserves its threads before its peer does.
///
/// A transfer that holds threads of one host waits for threads of the other one. All transfers take
/// the hosts in one order, so that no circle of transfers can wait for each other (Havender, 1968).
/// `host` and `peer` are names that both hosts know and that differ, such as public keys.
pub fn reserves_first(host: &[u8], peer: &[u8]) -> bool {
    host < peer
}
