//! Options of how data gets to another host.

use crate::args::whole;
use crate::failure::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use numaio_linux::port::net::{PublicKey, MAX_STREAMS};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// One connection is for what the sink says.
const MAX_STREAMS: u32 = MAX_STREAMS as u32 - 1;
/// Connections for data that there are, if nobody says how many. On a long way several come to speed sooner than one: the window of
/// each grows from the same beginning.
const DEFAULT_STREAMS: u16 = 8;

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "To and from another host")]
pub struct NetArgs {
    /// Send data through ssh, or the one connection to a daemon, not over TCP connections of its own
    #[arg(long, conflicts_with_all = ["data_port", "data_security", "streams"])]
    pub tunnel: bool,
    /// How data is protected outside of ssh: tls encrypts it, ktls too, by the kernel of each host that can, none only proves who
    /// is there
    #[arg(long, value_name = "HOW", default_value = "tls")]
    pub data_security: DataSecurity,
    /// Port of the other host for data, or the first and last of several: 5000 or 5000-5010. With it data never goes
    /// through ssh; without it any port that is free, and ssh where that cannot be reached
    #[arg(long, value_name = "PORT[-PORT]", value_parser = parse_ports)]
    pub data_port: Option<(u16, u16)>,
    /// TCP connections for data; else eight, or one for two CPUs if that is less and the way is short
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_STREAMS))]
    streams: Option<u32>,
    /// Further addresses of the other host, as of its other network interfaces: data connections take them and the first one in turn,
    /// all of them. What does not get to one goes to the first
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', conflicts_with = "tunnel")]
    via: Vec<String>,
    /// Your key for daemons, if it is not where numaio keygen keeps one: ~/.config/numaio/key, or numaio/key in
    /// XDG_CONFIG_HOME if that is set
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The key of a daemon that you were told by who runs it; it is remembered, so once is enough
    #[arg(long, value_name = "KEY")]
    pub trust: Option<PublicKey>,
    /// How long to try again by itself after the connection was lost; 0 does not
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole(0..=u32::MAX))]
    retry: u32,
}

impl NetArgs {
    /// Connections for data.
    pub fn streams(&self) -> u16 {
        self.streams.map_or(DEFAULT_STREAMS, |streams| streams as u16)
    }

    /// Whether fewer may be used: nobody said how many, or by which ways.
    pub fn may_use_fewer_streams(&self) -> bool {
        self.streams.is_none() && self.via.is_empty()
    }

    /// The further addresses, at no port yet.
    ///
    /// # Errors
    /// A name has none; or there are more of them than connections.
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

    /// How long to try to go on after the connection was lost.
    pub fn retry(&self) -> Duration {
        Duration::from_secs(self.retry.into())
    }
}

/// The address of a host, at no port yet. One with colons may stand in brackets, as it does before a path.
fn resolve(name: &str) -> Result<SocketAddr, String> {
    let plain = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match (plain, 0).to_socket_addrs().map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("it has no address".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Addresses at a port.
pub fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let at = |mut address: SocketAddr| {
        address.set_port(port);
        address
    };
    addresses.iter().copied().map(at).collect()
}

/// How data connections are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataSecurity {
    Tls,
    #[value(name = "ktls")]
    KernelTls,
    None,
}

/// A port, or the first and last of several.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err("a port is a number from 1 to 65535; several are written FIRST-LAST".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_colons_may_stand_in_brackets() {
        for name in ["::1", "[::1]"] {
            assert_eq!(resolve(name).map(|address| address.to_string()), Ok("[::1]:0".to_owned()));
        }
        assert!(of("[::1").is_err() && of("[]").is_err());
    }

    #[test]
    fn ports_are_one_or_several() {
        assert_eq!(ports("5000"), Ok((5000, 5000)));
        assert_eq!(ports("5000-5010"), Ok((5000, 5010)));
        for bad in ["", "0", "65536", "2-1", "-", "1-", "1-2-3", "x"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }
}
