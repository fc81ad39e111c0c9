//! The side that connects.

use super::deadline::opening_error;
use super::ticket::Ticket;
use super::{tcp_tuning, Credentials, DataStream, NetError};
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// How often one connection is tried: strangers at the door may have had it closed.
const TRIES: u32 = 5;
/// The pause after the first try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(40);

/// How long another address than the first may take.
const ALTERNATIVE_LIMIT: Duration = Duration::from_secs(1);

/// What became of a call.
type StreamResult = Result<Box<dyn DataStream>, NetError>;

/// Connections to a door that are being made, all at once: first those of TCP, and then, as soon as it is known what lets
/// them in, they are opened.
pub struct OutgoingConnections {
    target: Arc<ConnectTarget>,
    opened: Receiver<(usize, StreamResult)>,
}

impl fmt::Debug for OutgoingConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// What all of them need.
struct ConnectTarget {
    /// Addresses of the same host, which connections take in turn; at least one.
    to: Vec<SocketAddr>,
    /// How long reaching an address may take.
    connect_limit: Duration,
    /// None if nobody wants them any more.
    opening: OnceLock<Option<Opening>>,
    /// Whether nobody waits for them any more.
    is_over: AtomicBool,
}

struct Opening {
    credentials: Arc<Credentials>,
    ticket: Option<Ticket>,
    deadline: Instant,
}

impl OutgoingConnections {
    /// Begins so many connections to an address, which is to be reached within `connect_limit`; or to it and `others` of the same host in turn.
    /// What does not get to one of these goes to the first.
    #[must_use]
    pub fn start(to: SocketAddr, others: &[SocketAddr], streams: usize, connect_limit: Duration) -> Self {
        let to = [&[to], others].concat();
        let target =
            ConnectTarget { to, connect_limit, opening: OnceLock::new(), is_over: AtomicBool::new(false) };
        let target = Arc::new(target);
        let (sender, opened) = channel();
        for index in 0..streams {
            let (sender, target) = (sender.clone(), target.clone());
            // One that has no thread is missed in the end.
            drop(Builder::new().name("call".to_owned()).spawn(move || {
                let stream = target.open_stream(index);
                stream.map(|stream| drop(sender.send((index, stream))))
            }));
        }
        Self { target, opened }
    }

    /// Has them opened within `limit`; at the port of a daemon they need a ticket.
    pub fn open(&self, credentials: Arc<Credentials>, ticket: Option<Ticket>, limit: Duration) {
        let opening = Opening { credentials, ticket, deadline: Instant::now() + limit };
        // It is said once.
        drop(self.target.opening.set(Some(opening)));
    }

    /// The first `count` of them, in the order of their numbers. For each of them the door has shown that it is the right one, and what
    /// it asks of us is under way.
    ///
    /// # Errors
    /// [`NetError`] of the first that does not come so far within `limit`.
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
    /// Makes one connection; none if nobody wants it.
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
        if at > 0 {
            if let Ok(socket) = tcp_tuning::connect(self.to[at], self.connect_limit.min(ALTERNATIVE_LIMIT)) {
                return Ok(socket);
            }
        }
        let first = self.to[0];
        tcp_tuning::connect(first, self.connect_limit).map_err(|error| match opening_error(error) {
            NetError::Failed(error) => NetError::Unreachable(first, error),
            other => other,
        })
    }
}

/// Connects so many times to a door, all at once, as [`OutgoingConnections::start`] does, and gives all connections or none, as of [`OutgoingConnections::streams`].
///
/// # Errors
/// [`NetError`] of the first that does not come so far within `limit`.
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
