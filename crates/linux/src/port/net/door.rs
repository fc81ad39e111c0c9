//! The side that is connected to: lets in whoever has the key, and keeps strangers from taking their place.

use super::ticket::take_over;
use super::{way, Lane, Lock, NetError};
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
pub struct Door {
    street: Arc<Street>,
    hall: Arc<Hall>,
    porter: Option<JoinHandle<()>>,
}

/// Where those who connect come from.
#[derive(Debug)]
enum Street {
    /// A port of its own.
    Port(TcpListener),
    /// Another process, which has a port, and hands them over.
    Process(UnixStream),
}

impl Street {
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
struct Hall {
    lock: Lock,
    seats: Mutex<Vec<Option<Box<dyn Lane>>>>,
    came: Condvar,
    opening: Mutex<Opening>,
}

#[derive(Debug, Default)]
struct Opening {
    closed: bool,
    next: u64,
    /// Oldest first.
    sockets: VecDeque<(u64, TcpStream)>,
}

impl Door {
    /// Listens at all addresses of this machine, at one of some ports or else at one that is free, for so many
    /// connections.
    ///
    /// # Errors
    /// The kernel's, if no port is free.
    pub fn open(lock: Lock, ports: Option<RangeInclusive<u16>>, lanes: usize) -> io::Result<Self> {
        Self::new(Street::Port(listen(ports)?), lock, lanes)
    }

    /// Takes so many connections over from a process, which has a port and hands over what comes there for us (by
    /// [`super::hand_over`]).
    ///
    /// # Errors
    /// The kernel's.
    pub fn of_process(lock: Lock, process: UnixStream, lanes: usize) -> io::Result<Self> {
        Self::new(Street::Process(process), lock, lanes)
    }

    fn new(street: Street, lock: Lock, lanes: usize) -> io::Result<Self> {
        let street = Arc::new(street);
        let seats = Mutex::new((0..lanes).map(|_| None).collect());
        let hall = Arc::new(Hall { lock, seats, came: Condvar::new(), opening: Mutex::default() });
        let porter = Builder::new().name("door".to_owned()).spawn({
            let (street, hall) = (street.clone(), hall.clone());
            move || receive(&street, &hall)
        })?;
        Ok(Self { street, hall, porter: Some(porter) })
    }

    /// Its port; none if that is another process's.
    ///
    /// # Errors
    /// The kernel's.
    pub fn port(&self) -> io::Result<Option<u16>> {
        match &*self.street {
            Street::Port(listener) => listener.local_addr().map(|at| Some(at.port())),
            Street::Process(_) => Ok(None),
        }
    }

    /// The connections, in the order of their numbers, when all were let in. The door is closed.
    ///
    /// # Errors
    /// [`NetError::Few`] if some did not come within `limit`.
    pub fn lanes(self, limit: Duration) -> Result<Vec<Box<dyn Lane>>, NetError> {
        let are_missing = |seats: &mut Vec<Option<Box<dyn Lane>>>| seats.iter().any(Option::is_none);
        let waited = self.hall.came.wait_timeout_while(self.hall.seats(), limit, are_missing);
        let (mut seats, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let wanted = seats.len();
        let lanes: Vec<_> = std::mem::take(&mut *seats).into_iter().flatten().collect();
        drop(seats);
        match lanes.len() == wanted {
            true => Ok(lanes),
            false => Err(NetError::Few(lanes.len(), wanted)),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        {
            let mut opening = self.hall.opening();
            opening.closed = true;
            opening.sockets.iter().for_each(|(_, socket)| drop(socket.shutdown(net::Shutdown::Both)));
        }
        self.street.close();
        self.porter.take().map(JoinHandle::join);
    }
}

impl Hall {
    fn seats(&self) -> MutexGuard<'_, Vec<Option<Box<dyn Lane>>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opening(&self) -> MutexGuard<'_, Opening> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for one who is to be looked at; none if nobody is let in any more, or there are too many open files.
    fn enter(&self, socket: &TcpStream) -> Option<u64> {
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

    fn leave(&self, number: u64) {
        self.opening().sockets.retain(|(other, _)| *other != number);
    }

    /// Strangers learn nothing.
    fn look(&self, socket: &TcpStream, number: u64) {
        let opened = self.lock.answer(socket, OPENING_LIMIT);
        // From here on it is no stranger who may be closed.
        self.leave(number);
        let Ok((index, lane)) = opened else { return };
        // A caller that gave up and tries again takes the place of its own first try.
        if let Some(seat) = self.seats().get_mut(usize::from(index)) {
            *seat = Some(lane);
            self.came.notify_all();
        }
    }
}

fn receive(street: &Street, hall: &Arc<Hall>) {
    loop {
        let came = street.next();
        if hall.opening().closed {
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
        let Some(number) = hall.enter(&socket) else { continue };
        let guest = hall.clone();
        if Builder::new().name("opening".to_owned()).spawn(move || guest.look(&socket, number)).is_err() {
            hall.leave(number);
        }
    }
}

/// At all addresses.
fn listen(ports: Option<RangeInclusive<u16>>) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for port in ports.unwrap_or(0..=0) {
        match way::listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
