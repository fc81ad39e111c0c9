//! Newline-delimited messages over a connection, with limits on length and time.

use super::protocol::{line, parse};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time limit for sending a line.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Lines that are read ahead. Beyond them TCP flow control blocks the peer.
const LINES_AHEAD: usize = 16;

/// Error message of an unusable connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionError(pub String);

/// Error message of a closed connection.
pub const CLOSED: &str = "the connection was closed";

impl ConnectionError {
    /// Whether the peer closed the connection.
    pub fn is_closed(&self) -> bool {
        self.0 == CLOSED
    }
}

/// A bidirectional connection for lines; closed when dropped.
#[derive(Debug)]
pub struct LineConnection {
    socket: TcpStream,
    /// `None` only during drop.
    lines: Option<Receiver<Result<String, ConnectionError>>>,
    reader: Option<JoinHandle<()>>,
}

impl LineConnection {
    /// Wraps a socket. Received lines may have at most `longest` bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(socket: TcpStream, longest: usize) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(WRITE_LIMIT))?;
        let (to, lines) = sync_channel(LINES_AHEAD);
        let from = socket.try_clone()?;
        let read = move || read_lines(from, longest, &to);
        let reader = thread::Builder::new().name("peer".to_owned()).spawn(read)?;
        Ok(Self { socket, lines: Some(lines), reader: Some(reader) })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ConnectionError`] if the peer closed the connection or does not read.
    pub fn send(&self, message: &impl Serialize) -> Result<(), ConnectionError> {
        (&self.socket).write_all(&line(message)).map_err(|error| ConnectionError(describe_error(&error)))
    }

    /// Returns the next message, or `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection failed or the message is invalid.
    pub fn receive<T: DeserializeOwned>(&self, wait: Duration) -> Result<Option<T>, ConnectionError> {
        let closed = || ConnectionError(CLOSED.to_owned());
        let lines = self.lines.as_ref().ok_or_else(closed)?;
        match lines.recv_timeout(wait) {
            Ok(line) => parse(&line?).map(Some).map_err(ConnectionError),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(closed()),
        }
    }
}

impl Drop for LineConnection {
    fn drop(&mut self) {
        // The reader waits for the socket or for space in the channel: both end here.
        drop(self.socket.shutdown(Shutdown::Both));
        self.lines = None;
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}

fn read_lines(from: TcpStream, longest: usize, to: &SyncSender<Result<String, ConnectionError>>) {
    let mut from = BufReader::new(from);
    loop {
        let line = read_line(&mut from, longest);
        let last = line.is_err();
        if to.send(line).is_err() || last {
            return;
        }
    }
}

fn read_line(from: &mut impl BufRead, longest: usize) -> Result<String, ConnectionError> {
    let mut line = Vec::new();
    let read = from.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut line);
    read.map_err(|error| ConnectionError(describe_error(&error)))?;
    match line.pop() {
        Some(b'\n') => String::from_utf8(line).map_err(|_| ConnectionError("invalid UTF-8".to_owned())),
        _ if line.len() >= longest => Err(ConnectionError(format!("line longer than {longest} bytes"))),
        _ => Err(ConnectionError(CLOSED.to_owned())),
    }
}

/// Reads the first line of a connection, and no byte beyond: other data may follow.
///
/// # Errors
/// [`ConnectionError`] if the line exceeds `longest` bytes or is incomplete after `limit`.
pub fn read_first_line(
    mut from: &TcpStream,
    longest: usize,
    limit: Duration,
) -> Result<String, ConnectionError> {
    let deadline = Instant::now() + limit;
    let mut line = Vec::new();
    while line.len() <= longest {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectionError("no complete first line within the time limit".to_owned()));
        }
        from.set_read_timeout(Some(left)).map_err(|error| ConnectionError(describe_error(&error)))?;
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) => return Err(ConnectionError(CLOSED.to_owned())),
            Ok(_) if byte == *b"\n" => {
                return String::from_utf8(line).map_err(|_| ConnectionError("invalid UTF-8".to_owned()));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(ConnectionError(describe_error(&error))),
        }
    }
    Err(ConnectionError(format!("first line longer than {longest} bytes")))
}

/// Describes an error of a connection.
pub fn describe_error(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "connection timed out".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}
