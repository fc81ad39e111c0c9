//! Options for the network connections of a transfer.

use crate::options::{choice, integer};
use clap::Args as ClapArgs;
use numaio_mover_linux::port::net::{PublicKey, MAX_STREAMS as MAX_CONNECTIONS};
use numaio_transfer::network_options::{DataSecurity, NetworkOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of data connections to the sink; one more carries the sink's messages.
const MAX_STREAMS: u32 = MAX_CONNECTIONS as u32 - 1;

/// Options of the network.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Network")]
pub struct NetArgs {
    /// Send data through ssh or the control connection of a daemon, without data connections
    #[arg(long, conflicts_with_all = ["data_port", "data_security", "streams"])]
    pub tunnel: bool,
    /// Protection of data connections: tls encrypts, none only authenticates the peer
    #[arg(long, value_name = "HOW", default_value = "tls", value_parser = choice::<DataSecurity>())]
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
    /// How long to retry after a lost connection, and to wait for a place at a full daemon; 0
    /// disables both
    ///
    /// forever also retries the first connection, until it succeeds or fails for a reason that only
    /// a user can change, such as a wrong key. Pauses grow up to 60 s.
    #[arg(long, value_name = "SECONDS|forever", default_value = "60", value_parser = parse_retry)]
    retry: RetryLimit,
    /// How long to wait without a sign of life of the other host, from its login on; 0 means no
    /// limit
    ///
    /// While a transfer runs, both sides send keep-alives, so that a host which is busy with its
    /// storage is not taken for a lost one. A lost connection is retried, see --retry.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = integer(0..=u32::MAX))]
    timeout: u32,
}

impl NetArgs {
    /// Returns the options.
    pub fn options(&self) -> NetworkOptions {
        NetworkOptions {
            tunnel: self.tunnel,
            data_security: self.data_security,
            data_port: self.data_port,
            streams: self.streams.map(|streams| streams as u16),
            via: self.via.clone(),
            key: self.key.clone(),
            trust: self.trust,
            retry: self.retry.0,
            timeout: (self.timeout > 0).then(|| Duration::from_secs(self.timeout.into())),
        }
    }
}

/// How long to retry; `None` without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RetryLimit(Option<Duration>);

/// Parses a number of seconds, or `forever`.
fn parse_retry(text: &str) -> Result<RetryLimit, String> {
    match (text, text.parse::<u32>()) {
        ("forever", _) => Ok(RetryLimit(None)),
        (_, Ok(seconds)) => Ok(RetryLimit(Some(Duration::from_secs(seconds.into())))),
        _ => Err(format!("expected an integer from 0 to {}, or forever", u32::MAX)),
    }
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
    fn parses_retry_limits() {
        assert_eq!(parse_retry("0"), Ok(RetryLimit(Some(Duration::ZERO))));
        assert_eq!(parse_retry("forever"), Ok(RetryLimit(None)));
        for bad in ["", "-1", "4294967296", "Forever", "1.5"] {
            assert!(parse_retry(bad).is_err(), "{bad}");
        }
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
