//! The side that is connected to: lets in whoever has the key, and keeps strangers from taking their place.

use super::ticket::take_over;
use super::{tcp_tuning, Credentials, DataStream, NetError};
use rustix::net::{shutdown, Shutdown};
use std::collections::VecDeque;
use std::io;
use std::net::{self, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

/// How long a connection may take to show that it is let in.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// Connections that have not shown it yet, at most. For a further one the oldest is closed: whoever knocks without end
/// delays the other side, and cannot hold the door shut by saying nothing.
const MOST_OPENING: usize = 64;
/// After an error of accept(2), as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the other side may connect. It is closed when this is dropped.
#[derive(Debug)]
pub struct DataListener {
    source: Arc<ConnectionSource>,
    state: Arc<AcceptState>,
    acceptor: Option<JoinHandle<()>>,
}

/// Where those who connect come from.
#[derive(Debug)]
enum ConnectionSource {
    /// A port of its own.
    Port(TcpListener),
    /// Another process, which has a port, and hands them over.
    Process(UnixStream),
}

impl ConnectionSource {
    /// The next one; none if nobody comes any more.
    fn next(&self) -> io::Result<Option<TcpStream>> {
        match self {
            Self::Port(listener) => listener.accept().map(|(socket, _)| Some(socket)),
            Self::Process(process) => take_over(process),
        }
    }

    /// Whoever waits for the next one is told that nobody comes any more: accept(2) of a listening socket that was shut down
    /// returns with an error.
    fn close(&self) {
        let _ = match self {
            Self::Port(listener) => shutdown(listener, Shutdown::Both),
            Self::Process(process) => shutdown(process, Shutdown::Both),
        };
    }
}

/// Those who are in, and those who are being looked at.
#[derive(Debug)]
struct AcceptState {
    credentials: Credentials,
    slots: Mutex<Vec<Option<Box<dyn DataStream>>>>,
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
    /// Listens at all addresses of this machine, at one of some ports or else at one that is free, for so many
    /// connections.
    ///
    /// # Errors
    /// The kernel's, if no port is free.
    pub fn bind(
        credentials: Credentials,
        ports: Option<RangeInclusive<u16>>,
        streams: usize,
    ) -> io::Result<Self> {
        Self::new(ConnectionSource::Port(bind_any(ports)?), credentials, streams)
    }

    /// Takes so many connections over from a process, which has a port and hands over what comes there for us (by
    /// [`super::hand_over`]).
    ///
    /// # Errors
    /// The kernel's.
    pub fn from_process(credentials: Credentials, process: UnixStream, streams: usize) -> io::Result<Self> {
        Self::new(ConnectionSource::Process(process), credentials, streams)
    }

    fn new(source: ConnectionSource, credentials: Credentials, streams: usize) -> io::Result<Self> {
        let source = Arc::new(source);
        let slots = Mutex::new((0..streams).map(|_| None).collect());
        let state =
            Arc::new(AcceptState { credentials, slots, changed: Condvar::new(), opening: Mutex::default() });
        let acceptor = Builder::new().name("door".to_owned()).spawn({
            let (source, state) = (source.clone(), state.clone());
            move || accept_loop(&source, &state)
        })?;
        Ok(Self { source, state, acceptor: Some(acceptor) })
    }

    /// Its port; none if that is another process's.
    ///
    /// # Errors
    /// The kernel's.
    pub fn port(&self) -> io::Result<Option<u16>> {
        match &*self.source {
            ConnectionSource::Port(listener) => listener.local_addr().map(|at| Some(at.port())),
            ConnectionSource::Process(_) => Ok(None),
        }
    }

    /// The connections, in the order of their numbers, when all were let in. The door is closed.
    ///
    /// # Errors
    /// [`NetError::MissingConnections`] if some did not come within `limit`.
    pub fn into_streams(self, limit: Duration) -> Result<Vec<Box<dyn DataStream>>, NetError> {
        let are_missing = |slots: &mut Vec<Option<Box<dyn DataStream>>>| slots.iter().any(Option::is_none);
        let waited = self.state.changed.wait_timeout_while(self.state.slots(), limit, are_missing);
        let (mut slots, _) = waited.unwrap_or_else(PoisonError::into_inner);
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
    fn slots(&self) -> MutexGuard<'_, Vec<Option<Box<dyn DataStream>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opening(&self) -> MutexGuard<'_, Opening> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for one who is to be looked at; none if nobody is let in any more, or there are too many open files.
    fn register(&self, socket: &TcpStream) -> Option<u64> {
        let mut opening = self.opening();
        if opening.closed {
            return None;
        }
        if opening.sockets.len() >= MOST_OPENING {
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

    /// Strangers learn nothing.
    fn authenticate(&self, socket: &TcpStream, number: u64) {
        let opened = self.credentials.authenticate_incoming(socket, OPENING_LIMIT);
        // From here on it is no stranger who may be closed.
        self.unregister(number);
        let Ok((index, stream)) = opened else { return };
        // A caller that gave up and tries again takes the place of its own first try.
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

/// At all addresses.
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
