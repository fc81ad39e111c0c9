//! Admission of connections: the server reads the first line of each and rejects unauthenticated
//! peers.

use super::line_connection::read_first_line;
use super::protocol::{line, parse, Answer, Opening, MAX_OPENING_BYTES, PROTOCOL};
use super::server_event::ServerEvent;
use super::token;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time limit for the first line of a connection.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of connections without a first line; further ones are closed immediately.
const MAX_UNIDENTIFIED: usize = 64;
/// Interval between checks whether the server is closed.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Delay after an error of accept(2), such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Connection of a client that sent the right token, and its address.
pub type AuthenticatedClient = (TcpStream, SocketAddr);

/// Reads and checks the first line of every connection.
#[derive(Debug)]
pub struct Admission {
    token: String,
    /// Whether the token was used: it is valid for one session.
    used: AtomicBool,
    closed: AtomicBool,
    opening: AtomicUsize,
    client_sender: Sender<AuthenticatedClient>,
    events: Sender<ServerEvent>,
    expected: Mutex<Option<ExpectedStreams>>,
}

/// Key of the expected streams of a run, and the channel for their connections.
#[derive(Debug)]
struct ExpectedStreams {
    key: String,
    to: Sender<(u32, TcpStream)>,
}

impl Admission {
    /// Creates the admission of one session; clients and events are sent to the channels.
    pub fn new(token: &str, client_sender: Sender<AuthenticatedClient>, events: Sender<ServerEvent>) -> Self {
        Self {
            token: token.to_owned(),
            used: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            opening: AtomicUsize::new(0),
            client_sender,
            events,
            expected: Mutex::default(),
        }
    }

    /// Makes [`Admission::accept_connections`] return.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Accepts connections until [`Admission::close`].
    pub fn accept_connections(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            while !self.closed.load(Ordering::Acquire) {
                let mut ready = [PollFd::new(listener, PollFlags::IN)];
                if !poll(&mut ready, Some(&POLL_INTERVAL)).is_ok_and(|count| count > 0) {
                    continue;
                }
                let Ok((socket, from)) = listener.accept() else {
                    thread::sleep(ACCEPT_RETRY_DELAY);
                    continue;
                };
                // Over the limit: the connection is closed without a reply.
                if self.opening.fetch_add(1, Ordering::AcqRel) >= MAX_UNIDENTIFIED {
                    self.opening.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                let task = move || {
                    self.identify(socket, from);
                    self.opening.fetch_sub(1, Ordering::AcqRel);
                };
                if thread::Builder::new().name("opening".to_owned()).spawn_scoped(scope, task).is_err() {
                    self.opening.fetch_sub(1, Ordering::AcqRel);
                }
            }
        });
    }

    /// Returns a new key for the streams of a run, and the receiver of their connections.
    ///
    /// # Errors
    /// The kernel's error, if no random bytes are available.
    pub fn expect_streams(&self) -> io::Result<(String, Receiver<(u32, TcpStream)>)> {
        let key = token::generate()?;
        let (to, streams) = channel();
        *self.expected() = Some(ExpectedStreams { key: key.clone(), to });
        Ok((key, streams))
    }

    /// Rejects further streams.
    pub fn reject_streams(&self) {
        *self.expected() = None;
    }

    fn expected(&self) -> MutexGuard<'_, Option<ExpectedStreams>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identify(&self, socket: TcpStream, from: SocketAddr) {
        let wanted = read_first_line(&socket, MAX_OPENING_BYTES, OPENING_LIMIT).map_err(|error| error.0);
        let admitted = wanted.and_then(|line| parse::<Opening>(&line)).and_then(|opening| {
            if opening.protocol != PROTOCOL {
                return Err(other_version(opening.protocol));
            }
            match opening.stream {
                Some(index) => self.stream(&opening.secret, index, &socket),
                None => self.session(&opening.secret, &socket, from),
            }
        });
        if let Err(why) = admitted {
            // A peer that does not read the reply must not block this thread.
            drop(socket.set_write_timeout(Some(OPENING_LIMIT)));
            drop((&socket).write_all(&line(&Answer::Refused { why: why.clone() })));
            drop(self.events.send(ServerEvent::Rejected { from, why }));
        }
    }

    fn session(&self, secret: &str, socket: &TcpStream, from: SocketAddr) -> Result<(), String> {
        if !token::matches(secret, &self.token) {
            return Err("the token is not the one that this server printed".to_owned());
        }
        if self.used.swap(true, Ordering::AcqRel) {
            return Err("the token was already used: it is valid for one session".to_owned());
        }
        let socket = socket.try_clone().map_err(|error| error.to_string())?;
        self.client_sender.send((socket, from)).map_err(|_| "the server is shutting down".to_owned())
    }

    fn stream(&self, key: &str, index: u32, socket: &TcpStream) -> Result<(), String> {
        let expected = self.expected();
        let Some(run) = expected.as_ref().filter(|run| token::matches(key, &run.key)) else {
            return Err("unexpected stream".to_owned());
        };
        let socket = socket.try_clone().map_err(|error| error.to_string())?;
        run.to.send((index, socket)).map_err(|_| "unexpected stream: the run has ended".to_owned())
    }
}

fn other_version(theirs: u32) -> String {
    format!("unsupported protocol version {theirs}, expected {PROTOCOL}: use the same numaio version on both hosts")
}
