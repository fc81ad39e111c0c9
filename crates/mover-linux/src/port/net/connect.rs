//! The connecting side of data connections.

use super::credentials::Credentials;
use super::data_stream::DataStream;
use super::net_error::{opening_error, NetError};
use super::tcp_tuning;
use super::ticket::Ticket;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Maximum number of connections that are being opened at a time; more than a transfer has, and
/// fewer than a listener keeps unauthenticated: beyond that it closes the oldest.
const MOST_CONCURRENT: usize = 40;

/// Attempts per connection: the listener may have closed it in favor of unauthenticated peers.
const TRIES: u32 = 5;
/// Pause after the first attempt; doubled after each further one.
const PAUSE: Duration = Duration::from_millis(40);

/// Time limit for addresses other than the first.
const ALTERNATIVE_LIMIT: Duration = Duration::from_secs(1);

/// Result of opening a stream.
type StreamResult = Result<Box<dyn DataStream>, NetError>;

/// Data connections being opened concurrently: first TCP, then authentication as soon as
/// credentials are known.
pub struct OutgoingConnections {
    target: Arc<ConnectTarget>,
    opened: Receiver<(usize, StreamResult)>,
}

impl fmt::Debug for OutgoingConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// State shared by all connections.
struct ConnectTarget {
    /// Addresses of the same host, assigned to connections in turn; at least one.
    to: Vec<SocketAddr>,
    /// Local address of each connection, which then has one address to connect to; empty for any.
    from: Vec<IpAddr>,
    /// Time limit for connecting to an address.
    connect_limit: Duration,
    /// None if the connections are no longer needed.
    opening: OnceLock<Option<Opening>>,
    /// Whether the owner stopped waiting.
    is_over: AtomicBool,
}

struct Opening {
    credentials: Arc<Credentials>,
    ticket: Option<Ticket>,
    deadline: Instant,
}

impl OutgoingConnections {
    /// Starts a number of connections to an address, each within `connect_limit`; or to it and
    /// `others` of the same host in turn. A connection that fails to another address falls back to
    /// the first.
    #[must_use]
    pub fn start(to: SocketAddr, others: &[SocketAddr], streams: usize, connect_limit: Duration) -> Self {
        Self::start_all(([&[to], others].concat(), Vec::new()), streams, connect_limit)
    }

    /// Starts a connection from each local address to its remote one, within `connect_limit`.
    #[must_use]
    pub fn start_on_routes(routes: &[(IpAddr, SocketAddr)], connect_limit: Duration) -> Self {
        let (from, to): (Vec<IpAddr>, Vec<SocketAddr>) = routes.iter().copied().unzip();
        Self::start_all((to, from), routes.len(), connect_limit)
    }

    fn start_all(
        (to, from): (Vec<SocketAddr>, Vec<IpAddr>),
        streams: usize,
        connect_limit: Duration,
    ) -> Self {
        let (opening, is_over) = (OnceLock::new(), AtomicBool::new(false));
        let target = Arc::new(ConnectTarget { to, from, connect_limit, opening, is_over });
        let (sender, opened) = channel();
        for first in 0..streams.min(MOST_CONCURRENT) {
            let (sender, target) = (sender.clone(), target.clone());
            // A connection without a thread is reported as missing later.
            drop(Builder::new().name("call".to_owned()).spawn(move || {
                for index in (first..streams).step_by(MOST_CONCURRENT) {
                    let Some(stream) = target.open_stream(index) else { return };
                    if sender.send((index, stream)).is_err() {
                        return;
                    }
                }
            }));
        }
        Self { target, opened }
    }

    /// Authenticates the connections within `limit`; the port of a daemon also requires a ticket.
    pub fn open(&self, credentials: Arc<Credentials>, ticket: Option<Ticket>, limit: Duration) {
        let opening = Opening { credentials, ticket, deadline: Instant::now() + limit };
        // Only the first call has an effect.
        drop(self.target.opening.set(Some(opening)));
    }

    /// Returns the first `count` connections in the order of their numbers. The listener of each
    /// has proven its identity, and our proof has been sent.
    ///
    /// # Errors
    /// [`NetError`] of the first connection that is not ready within `limit`.
    pub fn into_streams(self, count: usize, limit: Duration) -> Result<Vec<Box<dyn DataStream>>, NetError> {
        let deadline = Instant::now() + limit;
        let mut streams: Vec<Option<Box<dyn DataStream>>> = (0..count).map(|_| None).collect();
        let mut missing = count;
        while missing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let (index, stream) = self.opened.recv_timeout(left).map_err(|_| NetError::TimedOut)?;
            if let Some(place) = streams.get_mut(index) {
                *place = Some(stream?);
                missing -= 1;
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }
}

impl Drop for OutgoingConnections {
    fn drop(&mut self) {
        self.target.is_over.store(true, Ordering::Relaxed);
        drop(self.target.opening.set(None));
    }
}

impl ConnectTarget {
    /// Opens one connection; none if it is no longer needed.
    fn open_stream(&self, index: usize) -> Option<StreamResult> {
        let mut socket = self.socket(index);
        let opening = self.opening.wait().as_ref()?;
        let left = || opening.deadline.saturating_duration_since(Instant::now());
        let mut tries = 0;
        loop {
            tries += 1;
            let opened = socket.and_then(|socket| {
                opening.ticket.map_or(Ok(()), |ticket| ticket.send(&socket).map_err(opening_error))?;
                opening.credentials.authenticate_outgoing(socket, index as u16, left())
            });
            match opened {
                Err(NetError::Refused) if tries < TRIES && !self.is_over.load(Ordering::Relaxed) => {
                    thread::sleep(PAUSE.min(left()) * (1 << (tries - 1)));
                    socket = self.socket(index);
                }
                opened => return Some(opened),
            }
        }
    }

    fn socket(&self, index: usize) -> Result<TcpStream, NetError> {
        let at = index % self.to.len();
        if let Some(local) = self.from.get(at) {
            let to = self.to[at];
            return tcp_tuning::connect_from(*local, to, self.connect_limit)
                .map_err(|error| unreachable(to, error));
        }
        if at > 0 {
            if let Ok(socket) = tcp_tuning::connect(self.to[at], self.connect_limit.min(ALTERNATIVE_LIMIT)) {
                return Ok(socket);
            }
        }
        let first = self.to[0];
        tcp_tuning::connect(first, self.connect_limit).map_err(|error| unreachable(first, error))
    }
}

/// Adds the address to the error of a connection that was not established.
fn unreachable(to: SocketAddr, error: io::Error) -> NetError {
    match opening_error(error) {
        NetError::Failed(error) => NetError::Unreachable(to, error),
        other => other,
    }
}

/// Opens a number of connections concurrently, as [`OutgoingConnections::start`] does, and returns
/// all of them.
///
/// # Errors
/// [`NetError`] of the first connection that is not ready within `limit`.
pub fn connect(
    credentials: &Arc<Credentials>,
    (to, others): (SocketAddr, &[SocketAddr]),
    streams: usize,
    limit: Duration,
) -> Result<Vec<Box<dyn DataStream>>, NetError> {
    let connections = OutgoingConnections::start(to, others, streams, limit);
    connections.open(credentials.clone(), None, limit);
    connections.into_streams(streams, limit)
}
