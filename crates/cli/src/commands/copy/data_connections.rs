//! Data connections beside ssh or the control channel of a daemon: what both sides say of them there, and how they come
//! about.

use super::net_options::{with_port, DataSecurity, NetArgs};
use numaio_linux::port::net::{
    connect as net_connect, has_kernel_tls, OutgoingConnections, DataListener, KeyPair, DataStream, Credentials, NetError, Secret, Ticket,
    MAX_STREAMS,
};
use numaio_linux::port::StreamSet;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How long it may take to reach an address, and how many are tried.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const MOST_ADDRESSES: usize = 3;
/// How long connections to a daemon may take that are opened while it makes up its mind.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// What the side that was started by the user says of data connections.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// How many go from the source to the sink; there is one more, back.
    streams: u16,
    /// Ports to choose from, first and last.
    ports: Option<(u16, u16)>,
    #[serde(rename = "word")]
    credential: OfferedCredential,
    /// What connections to the port of a daemon begin with; they are being made.
    #[serde(default)]
    ticket: Option<[u8; 16]>,
    /// Whether the kernels are to encrypt and decrypt, where they can. A daemon does as its file says.
    #[serde(default, rename = "by_kernel")]
    kernel_tls: bool,
}

impl Offer {
    /// What a daemon leaves of it for one of its users.
    pub fn limit(&mut self, streams: u16) {
        self.streams = self.streams.min(streams);
    }
}

/// By what the sides know each other.
#[derive(Debug, Serialize, Deserialize)]
enum OfferedCredential {
    /// The public key of the side that says it.
    Key(Vec<u8>),
    /// A secret; connections are not encrypted.
    Secret([u8; 32]),
}

/// What the other side says of its door.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataEndpoint {
    /// Its own; none if connections come to the port of a daemon.
    port: Option<u16>,
    /// Its public key, if the offer had one.
    key: Option<Vec<u8>>,
    /// Its own address, as far as its ssh knows.
    address: Option<IpAddr>,
    /// Whether its kernel encrypts and decrypts.
    #[serde(default, rename = "by_kernel")]
    pub kernel_tls: bool,
}

/// Where data connections of a session come: to the port of its daemon, which hands them over.
#[derive(Debug)]
pub struct DataPath {
    /// The daemon's.
    pub keys: KeyPair,
    /// Whether the kernel is to encrypt and decrypt, and can.
    pub kernel_tls: bool,
    pub daemon: UnixStream,
    /// Has those with a ticket handed over.
    pub request_connections: fn(&UnixStream, [u8; 16]) -> io::Result<()>,
}

/// What was chosen when the connections were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRoute {
    /// Data connections.
    #[serde(rename = "Lanes")]
    DataConnections,
    /// Streams of ssh.
    #[serde(rename = "Tunnel")]
    ControlChannel,
}

/// This side's half of an offer.
#[derive(Debug)]
pub struct LocalOffer {
    streams: u16,
    credential: LocalCredential,
    kernel_tls: bool,
}

#[derive(Debug)]
enum LocalCredential {
    Key(KeyPair),
    Secret(Secret),
}

impl LocalOffer {
    /// Fresh keys for one transfer, by so many connections from the source to the sink.
    pub fn new(args: &NetArgs, streams: u16) -> io::Result<Self> {
        let credential = match args.data_security {
            DataSecurity::Tls | DataSecurity::KernelTls => LocalCredential::Key(KeyPair::generate()?),
            DataSecurity::None => LocalCredential::Secret(Secret::generate()?),
        };
        Ok(Self { streams, credential, kernel_tls: args.data_security == DataSecurity::KernelTls })
    }

    /// To be told through ssh.
    pub fn offer(&self, ports: Option<(u16, u16)>, ticket: Option<Ticket>) -> Offer {
        let credential = match &self.credential {
            LocalCredential::Key(keys) => OfferedCredential::Key(keys.public().to_vec()),
            LocalCredential::Secret(secret) => OfferedCredential::Secret(secret.bytes()),
        };
        let ticket = ticket.map(|ticket| ticket.0);
        Offer { streams: self.streams, ports, credential, ticket, kernel_tls: self.kernel_tls }
    }

    /// What lets connections in to a door with this key, if it is by keys.
    fn lock(&self, key: Vec<u8>) -> Arc<Credentials> {
        Arc::new(match &self.credential {
            LocalCredential::Key(own) => {
                Credentials::Tls { own: own.clone(), peer: key, by_kernel: self.kernel_tls }
            }
            LocalCredential::Secret(secret) => Credentials::Plain(secret.clone()),
        })
    }

    /// Has calls to a daemon opened, which has this key.
    pub fn start_handshakes(&self, calls: &OutgoingConnections, ticket: Ticket, key: Vec<u8>) {
        calls.open(self.lock(key), Some(ticket), HANDSHAKE_TIMEOUT);
    }

    /// How many connections there are if the other side allows so many from the source to the sink.
    pub fn connection_count(&self, most_streams: u16) -> usize {
        connection_count(self.streams.min(most_streams).max(1))
    }

    /// Connects to the door, at the address that ssh goes to, or else at that which the other side has.
    pub fn connect(
        self,
        endpoint: DataEndpoint,
        name: Option<String>,
        others: &[SocketAddr],
    ) -> Result<Vec<Box<dyn DataStream>>, String> {
        let mut why = "ssh does not tell its address".to_owned();
        let addresses = candidate_addresses(&endpoint, name);
        let others = with_port(others, endpoint.port.unwrap_or_default());
        let lock = match (&self.credential, endpoint.key) {
            (LocalCredential::Key(_), Some(key)) => self.lock(key),
            (LocalCredential::Secret(_), None) => self.lock(Vec::new()),
            _ => return Err("its key is missing".to_owned()),
        };
        for address in addresses {
            match net_connect(&lock, (address, &others), connection_count(self.streams), CONNECT_TIMEOUT) {
                Ok(lanes) => return Ok(lanes),
                // This one names the address that it is about.
                Err(error @ NetError::Unreachable(..)) => why = error.to_string(),
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(why)
    }
}

/// Connections in all: one goes back.
pub fn connection_count(streams: u16) -> usize {
    usize::from(streams) + 1
}

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

/// The door of the other side, for an offer; that of a session of a daemon is in its street.
pub fn open_listener(offer: &Offer, path: Option<&DataPath>) -> Result<(DataListener, DataEndpoint), String> {
    if !(2..=MAX_STREAMS).contains(&connection_count(offer.streams)) {
        return Err(format!("{} connections are not possible", offer.streams));
    }
    let kernel_tls = path.map_or_else(|| offer.kernel_tls && has_kernel_tls(), |path| path.kernel_tls);
    let (lock, key) = match &offer.credential {
        OfferedCredential::Key(peer) => {
            let own = path.map_or_else(KeyPair::generate, |path| Ok(path.keys.clone()));
            let own = own.map_err(|error| error.to_string())?;
            let key = own.public().to_vec();
            (Credentials::Tls { own, peer: peer.clone(), by_kernel: kernel_tls }, Some(key))
        }
        OfferedCredential::Secret(secret) => (Credentials::Plain(Secret::from_bytes(*secret)), None),
    };
    let Some(path) = path else {
        let ports = offer.ports.map(|(first, last)| first..=last);
        let door = DataListener::bind(lock, ports, connection_count(offer.streams));
        let door = door.map_err(|error| format!("no port can be opened there: {error}"))?;
        let port = door.port().map_err(|error| error.to_string())?;
        let address = own_address(std::env::var("SSH_CONNECTION").ok());
        return Ok((door, DataEndpoint { port, key, address, kernel_tls }));
    };
    let ticket = offer.ticket.ok_or("connections to a daemon need a ticket")?;
    let asked = (path.request_connections)(&path.daemon, ticket).and_then(|()| path.daemon.try_clone());
    let door = asked.and_then(|process| DataListener::from_process(lock, process, connection_count(offer.streams)));
    Ok((
        door.map_err(|error| error.to_string())?,
        DataEndpoint { port: None, key, address: None, kernel_tls },
    ))
}

/// The third of four words: address and port of the client, and of the server (ssh(1), ENVIRONMENT).
fn own_address(connection: Option<String>) -> Option<IpAddr> {
    connection?.split(' ').nth(2)?.parse().ok()
}

/// Connections for a side: all but the last go from the source to the sink.
pub fn split_by_direction(mut lanes: Vec<Box<dyn DataStream>>, is_source: bool) -> StreamSet {
    let back = lanes.split_off(lanes.len().saturating_sub(1));
    match is_source {
        true => StreamSet { from: back, to: lanes },
        false => StreamSet { from: lanes, to: back },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_this_host_is_what_its_ssh_says() {
        let own = |text: &str| own_address(Some(text.to_owned())).map(|address| address.to_string());
        assert_eq!(own("192.0.2.1 50000 192.0.2.2 22").as_deref(), Some("192.0.2.2"));
        assert_eq!(own("::1 50000 2001:db8::2 22").as_deref(), Some("2001:db8::2"));
        for bad in ["", "UNKNOWN 65535 UNKNOWN 65535", "a b"] {
            assert_eq!(own(bad), None);
        }
    }

    #[test]
    fn an_address_is_tried_once() {
        let endpoint =
            DataEndpoint { port: Some(7), key: None, address: "127.0.0.1".parse().ok(), kernel_tls: false };
        let addresses = candidate_addresses(&endpoint, Some("127.0.0.1".to_owned()));
        assert_eq!(addresses, [SocketAddr::from(([127, 0, 0, 1], 7))]);
    }

    #[test]
    fn offers_beyond_what_there_may_be_are_refused() {
        for streams in [0, MAX_STREAMS as u16, u16::MAX] {
            let offer = Offer {
                streams,
                ports: None,
                credential: OfferedCredential::Secret([0; 32]),
                ticket: None,
                kernel_tls: false,
            };
            assert!(open_listener(&offer, None).is_err(), "{streams}");
        }
    }
}
