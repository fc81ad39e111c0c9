//! Options for the network connections of a transfer.

use crate::failure::Failure;
use crate::options::integer;
use clap::{Args as ClapArgs, ValueEnum};
use numaio_mover_linux::port::net::{PublicKey, MAX_STREAMS as MAX_CONNECTIONS};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of data connections to the sink; one more carries the sink's messages.
const MAX_STREAMS: u32 = MAX_CONNECTIONS as u32 - 1;
/// Default number of data connections. Over long distances several connections gain speed faster
/// than one, because each congestion window grows separately.
const DEFAULT_STREAMS: u16 = 8;

/// Options of the network.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Network")]
pub struct NetArgs {
    /// Send data through ssh or the control connection of a daemon, without data connections
    #[arg(long, conflicts_with_all = ["data_port", "data_security", "streams"])]
    pub tunnel: bool,
    /// Protection of data connections: tls encrypts, ktls encrypts in the kernel where possible,
    /// none only authenticates the peer
    #[arg(long, value_name = "HOW", default_value = "tls")]
    pub data_security: DataSecurity,
    /// Port for data on the other host, or a range: 5000 or 5000-5010; disables the fallback to
    /// ssh. Default: any free port, and ssh if it is unreachable
    #[arg(long, value_name = "PORT[-PORT]", value_parser = parse_ports)]
    pub data_port: Option<(u16, u16)>,
    /// Number of TCP connections for data; default 8, or one per two CPUs if that is less and the
    /// latency is low
    #[arg(long, value_name = "N", env = "NUMAIO_STREAMS", value_parser = integer(1..=MAX_STREAMS))]
    streams: Option<u32>,
    /// Additional addresses of the other host, for example of further network interfaces: data
    /// connections use all addresses in turn, and the first one instead of an unreachable one
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', conflicts_with = "tunnel")]
    via: Vec<String>,
    /// Your key for daemons; default ~/.config/numaio/key, or numaio/key in XDG_CONFIG_HOME if that
    /// is set
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Public key of a daemon, from its administrator; it is remembered
    #[arg(long, value_name = "KEY")]
    pub trust: Option<PublicKey>,
    /// How long to retry after a lost connection; 0 disables retries
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = integer(0..=u32::MAX))]
    retry: u32,
}

impl NetArgs {
    /// Returns the number of data connections to the sink.
    pub fn streams(&self) -> u16 {
        self.streams.map_or(DEFAULT_STREAMS, |streams| streams as u16)
    }

    /// Whether fewer connections may be used: neither their number nor addresses were passed.
    pub fn may_use_fewer_streams(&self) -> bool {
        self.streams.is_none() && self.via.is_empty()
    }

    /// Resolves the additional addresses, with port 0.
    ///
    /// # Errors
    /// A name has no address; or there are more addresses than connections.
    pub fn extra_addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        if self.via.len() >= usize::from(self.streams()) {
            return Err(Failure::usage(format!(
                "--streams {} are too few for {} addresses",
                self.streams(),
                self.via.len() + 1
            )));
        }
        let address =
            |name: &String| resolve(name).map_err(|why| Failure::usage(format!("--via {name}: {why}")));
        self.via.iter().map(address).collect()
    }

    /// Returns how long to retry after a lost connection.
    pub fn retry(&self) -> Duration {
        Duration::from_secs(self.retry.into())
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataSecurity {
    Tls,
    #[value(name = "ktls")]
    KernelTls,
    None,
}

/// Parses a port, or a range of ports.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err("expected a port from 1 to 65535, or a range FIRST-LAST".to_owned()),
    }
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

    #[test]
    fn parses_ports_and_ranges() {
        assert_eq!(parse_ports("5000"), Ok((5000, 5000)));
        assert_eq!(parse_ports("5000-5010"), Ok((5000, 5010)));
        for bad in ["", "0", "65536", "2-1", "-", "1-", "1-2-3", "x"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}
