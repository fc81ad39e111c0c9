//! The listening side of data connections: authenticates peers, and limits unauthenticated
//! connections.

use super::credentials::Credentials;
use super::data_stream::DataStream;
use super::net_error::NetError;
use super::tcp_tuning;
use super::ticket::take_over;
use rustix::net::{shutdown, Shutdown};
use std::collections::VecDeque;
use std::io;
use std::net::{self, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

/// Time limit for a connection to authenticate.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of unauthenticated connections beside the expected ones, which may all come at
/// once. Beyond it the oldest is closed: an attacker can delay the peer, but cannot block it with
/// idle connections.
const MOST_OPENING: usize = 64;
/// Pause after an accept(2) error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener for the data connections of a transfer; closed on drop.
#[derive(Debug)]
pub struct DataListener {
    source: Arc<ConnectionSource>,
    state: Arc<AcceptState>,
    acceptor: Option<JoinHandle<()>>,
}

/// Source of incoming connections.
#[derive(Debug)]
enum ConnectionSource {
    /// A TCP port of this process.
    Port(TcpListener),
    /// Another process, which listens and passes connections on.
    Process(UnixStream),
}

impl ConnectionSource {
    /// Returns the next connection; none at the end.
    fn next(&self) -> io::Result<Option<TcpStream>> {
        match self {
            Self::Port(listener) => listener.accept().map(|(socket, _)| Some(socket)),
            Self::Process(process) => take_over(process),
        }
    }

    /// Ends a blocked [`Self::next`]: accept(2) on a listening socket that was shut down returns an
    /// error.
    fn close(&self) {
        let _ = match self {
            Self::Port(listener) => shutdown(listener, Shutdown::Both),
            Self::Process(process) => shutdown(process, Shutdown::Both),
        };
    }
}

/// Authenticated connections by number; none where one is missing.
type Slots = Vec<Option<Box<dyn DataStream>>>;

/// Authenticated connections, and those being authenticated.
#[derive(Debug)]
struct AcceptState {
    credentials: Credentials,
    slots: Mutex<Slots>,
    changed: Condvar,
    opening: Mutex<Opening>,
}

#[derive(Debug, Default)]
struct Opening {
    closed: bool,
    next: u64,
    /// Oldest first.
    sockets: VecDeque<(u64, TcpStream)>,
}

impl DataListener {
    /// Listens on all addresses of this machine for a number of connections, on one of the given
    /// ports or a free one.
    ///
    /// # Errors
    /// I/O error if no port is free.
    pub fn bind(
        credentials: Credentials,
        ports: Option<RangeInclusive<u16>>,
        streams: usize,
    ) -> io::Result<Self> {
        Self::new(ConnectionSource::Port(bind_any(ports)?), credentials, streams)
    }

    /// Listens on one address for a number of connections; port 0 selects a free port.
    ///
    /// # Errors
    /// I/O error, such as a port in use.
    pub fn bind_to(credentials: Credentials, address: SocketAddr, streams: usize) -> io::Result<Self> {
        Self::new(ConnectionSource::Port(tcp_tuning::listen(address)?), credentials, streams)
    }

    /// Takes a number of connections from a process that listens and passes them on (by
    /// [`super::hand_over`]).
    ///
    /// # Errors
    /// I/O errors.
    pub fn from_process(credentials: Credentials, process: UnixStream, streams: usize) -> io::Result<Self> {
        Self::new(ConnectionSource::Process(process), credentials, streams)
    }

    fn new(source: ConnectionSource, credentials: Credentials, streams: usize) -> io::Result<Self> {
        let source = Arc::new(source);
        let slots = Mutex::new((0..streams).map(|_| None).collect());
        let state =
            Arc::new(AcceptState { credentials, slots, changed: Condvar::new(), opening: Mutex::default() });
        let acceptor = Builder::new().name("listener".to_owned()).spawn({
            let (source, state) = (source.clone(), state.clone());
            move || accept_loop(&source, &state)
        })?;
        Ok(Self { source, state, acceptor: Some(acceptor) })
    }

    /// Returns its port; none if another process listens.
    ///
    /// # Errors
    /// I/O errors.
    pub fn port(&self) -> io::Result<Option<u16>> {
        match &*self.source {
            ConnectionSource::Port(listener) => listener.local_addr().map(|at| Some(at.port())),
            ConnectionSource::Process(_) => Ok(None),
        }
    }

    /// Waits for at most `limit`, and returns whether all connections are established.
    pub fn wait(&self, limit: Duration) -> bool {
        self.wait_for_all(limit).iter().all(Option::is_some)
    }

    fn wait_for_all(&self, limit: Duration) -> MutexGuard<'_, Slots> {
        let are_missing = |slots: &mut Slots| slots.iter().any(Option::is_none);
        let waited = self.state.changed.wait_timeout_while(self.state.slots(), limit, are_missing);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for all connections and returns them in the order of their numbers. Closes the
    /// listener.
    ///
    /// # Errors
    /// [`NetError::MissingConnections`] if some are missing after `limit`.
    pub fn into_streams(self, limit: Duration) -> Result<Vec<Box<dyn DataStream>>, NetError> {
        let mut slots = self.wait_for_all(limit);
        let wanted = slots.len();
        let streams: Vec<_> = std::mem::take(&mut *slots).into_iter().flatten().collect();
        drop(slots);
        match streams.len() == wanted {
            true => Ok(streams),
            false => Err(NetError::MissingConnections(streams.len(), wanted)),
        }
    }
}

impl Drop for DataListener {
    fn drop(&mut self) {
        {
            let mut opening = self.state.opening();
            opening.closed = true;
            opening.sockets.iter().for_each(|(_, socket)| drop(socket.shutdown(net::Shutdown::Both)));
        }
        self.source.close();
        self.acceptor.take().map(JoinHandle::join);
    }
}

impl AcceptState {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opening(&self) -> MutexGuard<'_, Opening> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection to be authenticated; none if the listener is closed or too many files
    /// are open.
    fn register(&self, socket: &TcpStream) -> Option<u64> {
        let expected = self.slots().len();
        let mut opening = self.opening();
        if opening.closed {
            return None;
        }
        if opening.sockets.len() >= expected + MOST_OPENING {
            let oldest = opening.sockets.pop_front();
            oldest.map(|(_, socket)| socket.shutdown(net::Shutdown::Both));
        }
        opening.next += 1;
        let number = opening.next;
        opening.sockets.push_back((number, socket.try_clone().ok()?));
        Some(number)
    }

    fn unregister(&self, number: u64) {
        self.opening().sockets.retain(|(other, _)| *other != number);
    }

    /// Authenticates a connection. An unauthenticated peer gets no answer.
    fn authenticate(&self, socket: &TcpStream, number: u64) {
        let opened = self.credentials.authenticate_incoming(socket, OPENING_LIMIT);
        // An authenticated connection must not be closed as the oldest one.
        self.unregister(number);
        let Ok((index, stream)) = opened else { return };
        // A retry of the client replaces its earlier attempt.
        if let Some(slot) = self.slots().get_mut(usize::from(index)) {
            *slot = Some(stream);
            self.changed.notify_all();
        }
    }
}

fn accept_loop(source: &ConnectionSource, state: &Arc<AcceptState>) {
    loop {
        let came = source.next();
        if state.opening().closed {
            return;
        }
        let socket = match came {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        let Some(number) = state.register(&socket) else { continue };
        let worker_state = state.clone();
        if Builder::new()
            .name("opening".to_owned())
            .spawn(move || worker_state.authenticate(&socket, number))
            .is_err()
        {
            state.unregister(number);
        }
    }
}

/// Listens on all addresses.
fn bind_any(ports: Option<RangeInclusive<u16>>) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for port in ports.unwrap_or(0..=0) {
        match tcp_tuning::listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
