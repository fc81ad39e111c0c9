//! Options of the network connections of a transfer, after parsing.

use crate::choice::Choice;
use crate::TransferError;
use numaio_mover_linux::port::net::PublicKey;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Default number of data connections. Over long distances several connections gain speed faster
/// than one, because each congestion window grows separately.
const DEFAULT_STREAMS: u16 = 8;

/// Options of the network.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// Send data through the control channel, without data connections.
    pub tunnel: bool,
    /// Protection of data connections.
    pub data_security: DataSecurity,
    /// Ports for data on the other host.
    pub data_port: Option<(u16, u16)>,
    /// Number of TCP connections for data.
    pub streams: Option<u16>,
    /// Additional addresses of the other host.
    pub via: Vec<String>,
    /// The file of the user's key for daemons.
    pub key: Option<PathBuf>,
    /// Public key of a daemon.
    pub trust: Option<PublicKey>,
    /// How long to retry after a lost connection, and to wait for a slot of a full daemon; `None`
    /// without a limit, which also retries the first connection.
    pub retry: Option<Duration>,
    /// How long to wait for a sign of life of the other host; `None` without a limit.
    pub timeout: Option<Duration>,
}

impl NetworkOptions {
    /// Returns the number of data connections to the sink.
    pub fn streams(&self) -> u16 {
        self.streams.unwrap_or(DEFAULT_STREAMS)
    }

    /// Whether fewer connections may be used: neither their number nor addresses were passed.
    pub fn may_use_fewer_streams(&self) -> bool {
        self.streams.is_none() && self.via.is_empty()
    }

    /// Checks the additional addresses; one that cannot be resolved is an error, unless the first
    /// connection is retried.
    ///
    /// # Errors
    /// As for [`extra_addresses`](Self::extra_addresses).
    pub fn check_extra_addresses(&self) -> Result<(), TransferError> {
        match self.extra_addresses() {
            Err(TransferError::UnresolvedAddress { .. }) if self.retry.is_none() => Ok(()),
            checked => checked.map(drop),
        }
    }

    /// Resolves the additional addresses, with port 0.
    ///
    /// # Errors
    /// A name has no address; or there are more addresses than connections.
    pub fn extra_addresses(&self) -> Result<Vec<SocketAddr>, TransferError> {
        if self.via.len() >= usize::from(self.streams()) {
            let (streams, addresses) = (self.streams(), self.via.len() + 1);
            return Err(TransferError::TooFewStreams { streams, addresses });
        }
        let address = |name: &String| {
            resolve(name).map_err(|why| TransferError::UnresolvedAddress { name: name.clone(), why })
        };
        self.via.iter().map(address).collect()
    }
}

/// Resolves a host to an address with port 0; an IPv6 address may have brackets.
fn resolve(name: &str) -> Result<SocketAddr, String> {
    let plain = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match (plain, 0).to_socket_addrs().map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("no address found".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns addresses with a port.
pub fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let at = |mut address: SocketAddr| {
        address.set_port(port);
        address
    };
    addresses.iter().copied().map(at).collect()
}

/// Protection of data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSecurity {
    /// Encrypted.
    Tls,
    /// Only the peer is authenticated.
    None,
}

impl Choice for DataSecurity {
    const NAMED: &'static [(&'static str, Self)] = &[("tls", Self::Tls), ("none", Self::None)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_ipv6_addresses_with_and_without_brackets() {
        for name in ["::1", "[::1]"] {
            assert_eq!(resolve(name).map(|address| address.to_string()), Ok("[::1]:0".to_owned()));
        }
        assert!(resolve("[::1").is_err() && resolve("[]").is_err());
    }
}
