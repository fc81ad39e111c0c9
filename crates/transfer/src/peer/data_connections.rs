//! TCP connections for data beside the control channel (ssh, or the connection to a daemon):
//! negotiation and setup.

use crate::network_options::{with_port, DataSecurity};
use numaio_mover_linux::port::net::{
    connect as net_connect, Credentials, DataListener, DataStream, KeyPair, NetError, OutgoingConnections,
    Secret, Ticket, MAX_STREAMS,
};
use numaio_mover_linux::port::StreamSet;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How long connecting to an address may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of addresses to try.
const MOST_ADDRESSES: usize = 3;
/// How long handshakes with a daemon may take, which start before the daemon has accepted the
/// session.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The local side's offer of data connections.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Number of connections from the source to the sink; one more goes back.
    streams: u16,
    /// Range of ports that the peer may listen on.
    ports: Option<(u16, u16)>,
    credential: OfferedCredential,
    /// Ticket at the start of the connections to a daemon's port, which are already being opened.
    #[serde(default)]
    ticket: Option<[u8; 16]>,
}

impl Offer {
    /// Reduces the number of connections to a user's limit.
    pub fn limit(&mut self, streams: u16) {
        self.streams = self.streams.min(streams);
    }
}

/// How the sides authenticate each other.
#[derive(Debug, Serialize, Deserialize)]
enum OfferedCredential {
    /// The public key of the offering side.
    Key(Vec<u8>),
    /// A shared secret; the connections are not encrypted.
    Secret([u8; 32]),
}

/// Where the peer accepts data connections.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataEndpoint {
    /// Port of the peer; `None` for the port of a daemon.
    port: Option<u16>,
    /// Public key of the peer, if the offer had a key.
    key: Option<Vec<u8>>,
    /// Address of the peer according to its ssh.
    address: Option<IpAddr>,
}

/// Access of a session to the data connections that its daemon accepts.
#[derive(Debug)]
pub struct DataPath {
    /// Keys of the daemon.
    pub keys: KeyPair,
    /// IPC socket of the daemon.
    pub daemon: UnixStream,
    /// Requests the connections with a ticket from the daemon; returns the socket over which they
    /// arrive.
    pub request_connections: fn(&UnixStream, [u8; 16]) -> io::Result<UnixStream>,
}

/// The route of the data, chosen by the local side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRoute {
    /// Data connections.
    DataConnections,
    /// The control channel.
    ControlChannel,
}

/// The local side's secrets for its offer.
#[derive(Debug)]
pub struct LocalOffer {
    streams: u16,
    credential: LocalCredential,
}

#[derive(Debug)]
enum LocalCredential {
    Key(KeyPair),
    Secret(Secret),
}

impl LocalOffer {
    /// Generates keys for one transfer with `streams` connections to the sink.
    pub fn new(security: DataSecurity, streams: u16) -> io::Result<Self> {
        let credential = match security {
            DataSecurity::Tls => LocalCredential::Key(KeyPair::generate()?),
            DataSecurity::None => LocalCredential::Secret(Secret::generate()?),
        };
        Ok(Self { streams, credential })
    }

    /// Returns the offer to send to the peer.
    pub fn offer(&self, ports: Option<(u16, u16)>, ticket: Option<Ticket>) -> Offer {
        let credential = match &self.credential {
            LocalCredential::Key(keys) => OfferedCredential::Key(keys.public().to_vec()),
            LocalCredential::Secret(secret) => OfferedCredential::Secret(secret.bytes()),
        };
        let ticket = ticket.map(|ticket| ticket.0);
        Offer { streams: self.streams, ports, credential, ticket }
    }

    /// Returns the lock for connections to a peer with this key, or for the shared secret.
    fn lock(&self, key: Vec<u8>) -> Arc<Credentials> {
        Arc::new(match &self.credential {
            LocalCredential::Key(own) => Credentials::Tls { own: own.clone(), peer: key },
            LocalCredential::Secret(secret) => Credentials::Plain(secret.clone()),
        })
    }

    /// Starts the handshakes of connections to a daemon with this key.
    pub fn start_handshakes(&self, calls: &OutgoingConnections, ticket: Ticket, key: Vec<u8>) {
        calls.open(self.lock(key), Some(ticket), HANDSHAKE_TIMEOUT);
    }

    /// Returns the number of connections if the peer allows `most_streams` to the sink.
    pub fn connection_count(&self, most_streams: u16) -> usize {
        connection_count(self.streams.min(most_streams).max(1))
    }

    /// Connects to the endpoint, first at the address that ssh uses, then at the peer's own
    /// address.
    pub fn connect(
        self,
        endpoint: DataEndpoint,
        name: Option<String>,
        others: &[SocketAddr],
    ) -> Result<Vec<Box<dyn DataStream>>, String> {
        let mut why = "ssh does not report the peer's address".to_owned();
        let addresses = candidate_addresses(&endpoint, name);
        let others = with_port(others, endpoint.port.unwrap_or_default());
        let lock = match (&self.credential, endpoint.key) {
            (LocalCredential::Key(_), Some(key)) => self.lock(key),
            (LocalCredential::Secret(_), None) => self.lock(Vec::new()),
            _ => return Err("its key is missing".to_owned()),
        };
        for address in addresses {
            match net_connect(&lock, (address, &others), connection_count(self.streams), CONNECT_TIMEOUT) {
                Ok(connections) => return Ok(connections),
                // This error names the address itself.
                Err(error @ NetError::Unreachable(..)) => why = error.to_string(),
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(why)
    }
}

/// Returns the total number of connections: `streams` to the sink, and one back.
pub fn connection_count(streams: u16) -> usize {
    usize::from(streams) + 1
}

/// Returns the addresses to try for an endpoint: those of the host name, then its own.
pub fn candidate_addresses(endpoint: &DataEndpoint, name: Option<String>) -> Vec<SocketAddr> {
    let Some(port) = endpoint.port else { return Vec::new() };
    let named = name.and_then(|name| (name, port).to_socket_addrs().ok()).into_iter().flatten();
    let own = endpoint.address.map(|address| SocketAddr::new(address, port));
    let mut addresses = Vec::new();
    for address in named.chain(own) {
        if !addresses.contains(&address) && addresses.len() < MOST_ADDRESSES {
            addresses.push(address);
        }
    }
    addresses
}

/// Opens a listener for an offer, or receives a session's connections from its daemon.
pub fn open_listener(offer: &Offer, path: Option<&DataPath>) -> Result<(DataListener, DataEndpoint), String> {
    if !(2..=MAX_STREAMS).contains(&connection_count(offer.streams)) {
        return Err(format!("cannot open {} data connections", offer.streams));
    }
    let (lock, key) = match &offer.credential {
        OfferedCredential::Key(peer) => {
            let own = path.map_or_else(KeyPair::generate, |path| Ok(path.keys.clone()));
            let own = own.map_err(|error| error.to_string())?;
            let key = own.public().to_vec();
            (Credentials::Tls { own, peer: peer.clone() }, Some(key))
        }
        OfferedCredential::Secret(secret) => (Credentials::Plain(Secret::from_bytes(*secret)), None),
    };
    let Some(path) = path else {
        let ports = offer.ports.map(|(first, last)| first..=last);
        let door = DataListener::bind(lock, ports, connection_count(offer.streams));
        let door = door.map_err(|error| format!("cannot listen on a port there: {error}"))?;
        let port = door.port().map_err(|error| error.to_string())?;
        let address = own_address(std::env::var("SSH_CONNECTION").ok());
        return Ok((door, DataEndpoint { port, key, address }));
    };
    let ticket = offer.ticket.ok_or("connections to a daemon need a ticket")?;
    let door = (path.request_connections)(&path.daemon, ticket)
        .and_then(|process| DataListener::from_process(lock, process, connection_count(offer.streams)));
    Ok((door.map_err(|error| error.to_string())?, DataEndpoint { port: None, key, address: None }))
}

/// Returns the server's address in `SSH_CONNECTION`: its third field (ssh(1), ENVIRONMENT).
fn own_address(connection: Option<String>) -> Option<IpAddr> {
    connection?.split(' ').nth(2)?.parse().ok()
}

/// Splits connections by direction: all but the last go from the source to the sink.
pub fn split_by_direction(mut connections: Vec<Box<dyn DataStream>>, is_source: bool) -> StreamSet {
    let back = connections.split_off(connections.len().saturating_sub(1));
    match is_source {
        true => StreamSet { from: back, to: connections },
        false => StreamSet { from: connections, to: back },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_address_is_the_server_address_of_ssh() {
        let own = |text: &str| own_address(Some(text.to_owned())).map(|address| address.to_string());
        assert_eq!(own("192.0.2.1 50000 192.0.2.2 22").as_deref(), Some("192.0.2.2"));
        assert_eq!(own("::1 50000 2001:db8::2 22").as_deref(), Some("2001:db8::2"));
        for bad in ["", "UNKNOWN 65535 UNKNOWN 65535", "a b"] {
            assert_eq!(own(bad), None);
        }
    }

    #[test]
    fn tries_each_address_once() {
        let endpoint = DataEndpoint { port: Some(7), key: None, address: "127.0.0.1".parse().ok() };
        let addresses = candidate_addresses(&endpoint, Some("127.0.0.1".to_owned()));
        assert_eq!(addresses, [SocketAddr::from(([127, 0, 0, 1], 7))]);
    }

    #[test]
    fn rejects_invalid_numbers_of_streams() {
        for streams in [0, MAX_STREAMS as u16, u16::MAX] {
            let offer =
                Offer { streams, ports: None, credential: OfferedCredential::Secret([0; 32]), ticket: None };
            assert!(open_listener(&offer, None).is_err(), "{streams}");
        }
    }
}
