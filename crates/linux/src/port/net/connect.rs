//! The side that connects.

use super::ticket::Ticket;
use super::timed::why;
use super::{way, Lane, Lock, NetError};
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
const OTHERS: Duration = Duration::from_secs(1);

/// What became of a call.
type Called = Result<Box<dyn Lane>, NetError>;

/// Connections to a door that are being made, all at once: first those of TCP, and then, as soon as it is known what lets
/// them in, they are opened.
pub struct Calls {
    wanted: Arc<Wanted>,
    opened: Receiver<(usize, Called)>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// What all of them need.
struct Wanted {
    /// Addresses of the same host, which connections take in turn; at least one.
    to: Vec<SocketAddr>,
    /// How long reaching an address may take.
    reach: Duration,
    /// None if nobody wants them any more.
    opening: OnceLock<Option<Opening>>,
    /// Whether nobody waits for them any more.
    is_over: AtomicBool,
}

struct Opening {
    lock: Arc<Lock>,
    ticket: Option<Ticket>,
    deadline: Instant,
}

impl Calls {
    /// Begins so many connections to an address, which is to be reached within `reach`; or to it and `others` of the same host in turn.
    /// What does not get to one of these goes to the first.
    #[must_use]
    pub fn begin(to: SocketAddr, others: &[SocketAddr], lanes: usize, reach: Duration) -> Self {
        let to = [&[to], others].concat();
        let wanted = Wanted { to, reach, opening: OnceLock::new(), is_over: AtomicBool::new(false) };
        let wanted = Arc::new(wanted);
        let (sender, opened) = channel();
        for index in 0..lanes {
            let (sender, wanted) = (sender.clone(), wanted.clone());
            // One that has no thread is missed in the end.
            drop(Builder::new().name("call".to_owned()).spawn(move || {
                let lane = wanted.call(index);
                lane.map(|lane| drop(sender.send((index, lane))))
            }));
        }
        Self { wanted, opened }
    }

    /// Has them opened within `limit`; at the port of a daemon they need a ticket.
    pub fn open(&self, lock: Arc<Lock>, ticket: Option<Ticket>, limit: Duration) {
        let opening = Opening { lock, ticket, deadline: Instant::now() + limit };
        // It is said once.
        drop(self.wanted.opening.set(Some(opening)));
    }

    /// The first `count` of them, in the order of their numbers. For each of them the door has shown that it is the right one, and what
    /// it asks of us is under way.
    ///
    /// # Errors
    /// [`NetError`] of the first that does not come so far within `limit`.
    pub fn lanes(self, count: usize, limit: Duration) -> Result<Vec<Box<dyn Lane>>, NetError> {
        let deadline = Instant::now() + limit;
        let mut lanes: Vec<Option<Box<dyn Lane>>> = (0..count).map(|_| None).collect();
        let mut missing = count;
        while missing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let (index, lane) = self.opened.recv_timeout(left).map_err(|_| NetError::Late)?;
            if let Some(place) = lanes.get_mut(index) {
                *place = Some(lane?);
                missing -= 1;
            }
        }
        Ok(lanes.into_iter().flatten().collect())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.wanted.is_over.store(true, Ordering::Relaxed);
        drop(self.wanted.opening.set(None));
    }
}

impl Wanted {
    /// Makes one connection; none if nobody wants it.
    fn call(&self, index: usize) -> Option<Called> {
        let mut socket = self.socket(index);
        let opening = self.opening.wait().as_ref()?;
        let left = || opening.deadline.saturating_duration_since(Instant::now());
        let mut tries = 0;
        loop {
            tries += 1;
            let called = socket.and_then(|socket| {
                opening.ticket.map_or(Ok(()), |ticket| ticket.show(&socket).map_err(why))?;
                opening.lock.call(socket, index as u16, left())
            });
            match called {
                Err(NetError::Refused) if tries < TRIES && !self.is_over.load(Ordering::Relaxed) => {
                    thread::sleep(PAUSE.min(left()) * (1 << (tries - 1)));
                    socket = self.socket(index);
                }
                called => return Some(called),
            }
        }
    }

    fn socket(&self, index: usize) -> Result<TcpStream, NetError> {
        let at = index % self.to.len();
        if at > 0 {
            if let Ok(socket) = way::connect(self.to[at], self.reach.min(OTHERS)) {
                return Ok(socket);
            }
        }
        let first = self.to[0];
        way::connect(first, self.reach).map_err(|error| match why(error) {
            NetError::Failed(error) => NetError::Unreachable(first, error),
            other => other,
        })
    }
}

/// Connects so many times to a door, all at once, as [`Calls::begin`] does, and gives all connections or none, as of [`Calls::lanes`].
///
/// # Errors
/// [`NetError`] of the first that does not come so far within `limit`.
pub fn connect(
    lock: &Arc<Lock>,
    (to, others): (SocketAddr, &[SocketAddr]),
    lanes: usize,
    limit: Duration,
) -> Result<Vec<Box<dyn Lane>>, NetError> {
    let calls = Calls::begin(to, others, lanes, limit);
    calls.open(lock.clone(), None, limit);
    calls.lanes(lanes, limit)
}
