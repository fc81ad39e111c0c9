//! Who may come in: the first word of every connection, with strangers kept from the one session.

use super::line_connection::read_first_line;
use super::protocol::{line, parse, Answer, Opening, MAX_OPENING_BYTES, PROTOCOL};
use super::server::ServerEvent;
use super::token;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a connection may take to say what it wants.
const OPENING_LIMIT: Duration = Duration::from_secs(5);
/// Connections that have not yet said it, at most; further ones are closed at once.
const MAX_UNIDENTIFIED: usize = 64;
/// How often one who waits for connections looks whether to end.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// After an error of accept(2), as when there are too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Someone with the right token.
pub type AuthenticatedClient = (TcpStream, SocketAddr);

/// Looks at every connection's opening.
#[derive(Debug)]
pub struct Admission {
    token: String,
    /// Whether the token was used: it is good for one session.
    used: AtomicBool,
    closed: AtomicBool,
    opening: AtomicUsize,
    client_sender: Sender<AuthenticatedClient>,
    events: Sender<ServerEvent>,
    expected: Mutex<Option<ExpectedStreams>>,
}

/// Streams of a run that are yet to come.
#[derive(Debug)]
struct ExpectedStreams {
    key: String,
    to: Sender<(u32, TcpStream)>,
}

impl Admission {
    /// For one session. What happens is told through the channels.
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

    /// Lets [`Admission::accept_connections`] end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Looks at connections until the desk is closed.
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
                // One that is closed here learns nothing, as one that says nothing.
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

    /// A key for the streams of a run, and where they arrive.
    ///
    /// # Errors
    /// The kernel's, if it has no random numbers.
    pub fn expect_streams(&self) -> io::Result<(String, Receiver<(u32, TcpStream)>)> {
        let key = token::generate()?;
        let (to, streams) = channel();
        *self.expected() = Some(ExpectedStreams { key: key.clone(), to });
        Ok((key, streams))
    }

    /// Refuses further streams.
    pub fn reject_streams(&self) {
        *self.expected() = None;
    }

    fn expected(&self) -> MutexGuard<'_, Option<ExpectedStreams>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identify(&self, socket: TcpStream, from: SocketAddr) {
        let wanted = read_first_line(&socket, MAX_OPENING_BYTES, OPENING_LIMIT).map_err(|lost| lost.0);
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
            // Whoever does not read this either is none of ours.
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
            return Err("the token was used: it is good for one session".to_owned());
        }
        let socket = socket.try_clone().map_err(|error| error.to_string())?;
        self.client_sender.send((socket, from)).map_err(|_| "the server ends".to_owned())
    }

    fn stream(&self, key: &str, index: u32, socket: &TcpStream) -> Result<(), String> {
        let expected = self.expected();
        let Some(run) = expected.as_ref().filter(|run| token::matches(key, &run.key)) else {
            return Err("no such stream is expected".to_owned());
        };
        let socket = socket.try_clone().map_err(|error| error.to_string())?;
        run.to.send((index, socket)).map_err(|_| "no stream is expected any more".to_owned())
    }
}

fn other_version(theirs: u32) -> String {
    format!("it speaks version {theirs} of numaio's protocol, and this server version {PROTOCOL}: use the same numaio at both ends")
}
