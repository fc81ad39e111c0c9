//! The connections of `numaio bench net`, authenticated like the data connections of a transfer.
//!
//! Over ssh the control channel is the standard streams of the other numaio. A manually started
//! server prints a token, which is the secret that authenticates the control channel. Each run of
//! streams has a new secret, which the server sends through the control channel.

use crate::ssh::ManagedProcess;
use numaio_linux::io::tcp::{
    ControlStreams, IncomingStreams, Peer, PeerError, StreamConnector, StreamEndpoint, StreamListener,
};
use numaio_machine::workload::Rail;
use numaio_mover_linux::port::net::{
    restore_congestion_control, Credentials, DataListener, DataStream, NetError, OutgoingConnections, Secret,
};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time limit for connecting to an address.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for the streams of a run, less than the server waits for them.
const STREAMS_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the control connection to a running server.
const CONTROL_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the first line of a running server.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks for the stop condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server that waits for the client with its token. Dropping this closes the port.
#[derive(Debug)]
pub struct PendingSession {
    listener: DataListener,
    address: SocketAddr,
    token: String,
}

impl PendingSession {
    /// Listens at an address with a new token; port 0 selects a free port.
    ///
    /// # Errors
    /// The kernel's error, such as a port in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let secret = Secret::generate()?;
        let token = secret.text();
        let listener = DataListener::bind_to(Credentials::Plain(secret), address, 1)?;
        let address = SocketAddr::new(address.ip(), listener.port()?.unwrap_or_default());
        Ok(Self { listener, address, token })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the token of the session, in 64 hexadecimal digits.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the client, closes the port and returns the client's control connection; `None` if
    /// `stop` returns true before.
    ///
    /// # Errors
    /// [`NetError`].
    pub fn accept(self, stop: &dyn Fn() -> bool) -> Result<Option<TcpStream>, NetError> {
        while !self.listener.wait(POLL_INTERVAL) {
            if stop() {
                return Ok(None);
            }
        }
        let sockets = sockets(self.listener.into_streams(Duration::ZERO)?)?;
        Ok(sockets.into_iter().next())
    }
}

/// Opens a port at an address for each run of streams; port 0 selects a free port each time.
#[derive(Debug, Clone, Copy)]
pub struct RunListener(pub SocketAddr);

impl StreamListener for RunListener {
    fn listen(&self, count: u32) -> io::Result<(StreamEndpoint, Box<dyn IncomingStreams>)> {
        let secret = Secret::generate()?;
        let key = secret.bytes();
        let listener = DataListener::bind_to(Credentials::Plain(secret), self.0, count as usize)?;
        let port = listener.port()?.unwrap_or_default();
        Ok((StreamEndpoint { port, key }, Box::new(RunStreams(listener))))
    }
}

/// Streams of a run that connect to this host.
struct RunStreams(DataListener);

impl IncomingStreams for RunStreams {
    fn wait(&self, limit: Duration) -> bool {
        self.0.wait(limit)
    }

    fn into_sockets(self: Box<Self>) -> Result<Vec<TcpStream>, String> {
        let streams = self.0.into_streams(Duration::ZERO).map_err(|error| error.to_string())?;
        measured_sockets(streams)
    }
}

/// Connects streams to a host, at the first of its addresses that works.
#[derive(Debug)]
struct HostConnector {
    host: String,
    /// The address that worked before.
    reached: OnceLock<SocketAddr>,
}

impl StreamConnector for HostConnector {
    fn connect(&self, endpoint: &StreamEndpoint, count: u32) -> Result<Vec<TcpStream>, String> {
        let credentials = Arc::new(Credentials::Plain(Secret::from_bytes(endpoint.key)));
        let mut addresses = match self.reached.get() {
            Some(reached) => vec![*reached],
            None => resolve(&self.host, endpoint.port)?,
        };
        addresses.iter_mut().for_each(|address| address.set_port(endpoint.port));
        let opened = open_any(&credentials, &addresses, count, STREAMS_LIMIT);
        let (at, streams) = opened.map_err(|error| error.to_string())?;
        self.reached.get_or_init(|| at);
        measured_sockets(streams)
    }

    fn connect_rails(&self, endpoint: &StreamEndpoint, rails: &[Rail]) -> Result<Vec<TcpStream>, String> {
        let credentials = Arc::new(Credentials::Plain(Secret::from_bytes(endpoint.key)));
        let route = |rail: &Rail| (rail.local, SocketAddr::new(rail.remote, endpoint.port));
        let routes: Vec<(IpAddr, SocketAddr)> = rails.iter().map(route).collect();
        let connections = OutgoingConnections::start_on_routes(&routes, CONNECT_LIMIT);
        connections.open(credentials, None, STREAMS_LIMIT);
        let opened = connections.into_streams(rails.len(), STREAMS_LIMIT);
        measured_sockets(opened.map_err(|error| error.to_string())?)
    }
}

/// Opens a session with a running server by its token.
///
/// # Errors
/// [`PeerError`].
pub fn connect(host: &str, port: u16, token: &Secret) -> Result<Peer, PeerError> {
    let peer = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let unreachable = |why: String| PeerError::Unreachable { peer: peer.clone(), why };
    let addresses = resolve(host, port).map_err(unreachable)?;
    let credentials = Arc::new(Credentials::Plain(token.clone()));
    let opened = open_any(&credentials, &addresses, 1, CONTROL_LIMIT);
    let (at, streams) = opened.map_err(|error| opening_error(&peer, error))?;
    let control = sockets(streams).map(|sockets| sockets.into_iter().next());
    let control = control.and_then(|socket| socket.map(ControlStreams::over).transpose());
    let control = control.map_err(|error| unreachable(error.to_string()))?;
    let control = control.ok_or_else(|| unreachable("no connection".to_owned()))?;
    let connector = HostConnector { host: host.to_owned(), reached: at.into() };
    Peer::open(&peer, control, Box::new(connector), HELLO_LIMIT)
}

/// Opens a session with a server that was started on a host, over its standard streams; it has to
/// send its first line within `limit`.
///
/// # Errors
/// [`PeerError`].
pub fn connect_started(host: &str, server: &mut ManagedProcess, limit: Duration) -> Result<Peer, PeerError> {
    let unreachable = |why: String| PeerError::Unreachable { peer: host.to_owned(), why };
    let (Some(to), Some(from)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(unreachable("its standard streams are in use".to_owned()));
    };
    let control = ControlStreams { from: Box::new(from), to: Box::new(to), socket: None };
    let connector = HostConnector { host: host.to_owned(), reached: OnceLock::new() };
    Peer::open(host, control, Box::new(connector), limit)
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let addresses: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| error.to_string())?.collect();
    match addresses.is_empty() {
        true => Err("the host name has no address".to_owned()),
        false => Ok(addresses),
    }
}

/// Opened streams, and the address that they connect to.
type OpenedStreams = (SocketAddr, Vec<Box<dyn DataStream>>);

/// Opens streams to the first address that can be reached.
fn open_any(
    credentials: &Arc<Credentials>,
    addresses: &[SocketAddr],
    count: u32,
    limit: Duration,
) -> Result<OpenedStreams, NetError> {
    let mut last = NetError::TimedOut;
    for &address in addresses {
        let connections = OutgoingConnections::start(address, &[], count as usize, CONNECT_LIMIT);
        connections.open(credentials.clone(), None, limit);
        match connections.into_streams(count as usize, limit) {
            Ok(streams) => return Ok((address, streams)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Describes why the control connection to a running server failed.
fn opening_error(peer: &str, error: NetError) -> PeerError {
    let peer = peer.to_owned();
    match error {
        NetError::Unreachable(_, error) => PeerError::Unreachable { peer, why: error.to_string() },
        NetError::WrongKey => {
            PeerError::Refused { peer, why: "the token is not the one that this server printed".to_owned() }
        }
        NetError::Failed(_) | NetError::TimedOut => PeerError::Unreachable { peer, why: error.to_string() },
        error => PeerError::NotNumaio { peer, why: error.to_string() },
    }
}

/// Returns the sockets of unencrypted streams.
fn sockets(streams: Vec<Box<dyn DataStream>>) -> io::Result<Vec<TcpStream>> {
    streams.iter().map(|stream| stream.socket().try_clone()).collect()
}

/// Returns the sockets of streams that are measured, with the congestion control of the machine.
fn measured_sockets(streams: Vec<Box<dyn DataStream>>) -> Result<Vec<TcpStream>, String> {
    streams.iter().for_each(|stream| restore_congestion_control(stream.socket()));
    sockets(streams).map_err(|error| error.to_string())
}
