//! Newline-delimited messages over a control channel, with limits on length and time.

use super::connections::{ControlStreams, ShutdownOnDrop};
use super::protocol::{line, parse};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::Duration;

/// Time limit for sending a line.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Lines that are read ahead. Beyond them the channel's flow control blocks the peer.
const LINES_AHEAD: usize = 16;

/// Error message of an unusable control channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
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
///
/// Pipes have no timeouts, so a thread for each direction reads and writes.
#[derive(Debug)]
pub struct LineConnection {
    /// Dropped first, since the threads may be blocked in the socket.
    _socket: ShutdownOnDrop,
    lines: Receiver<Result<String, ConnectionError>>,
    outgoing: Sender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    /// Whether a line was not written in time: the writer is still blocked.
    is_stuck: Cell<bool>,
}

impl LineConnection {
    /// Uses a control channel. Received lines may have at most `longest` bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(streams: ControlStreams, longest: usize) -> io::Result<Self> {
        let ControlStreams { from, to, socket } = streams;
        let (line_sender, lines) = sync_channel(LINES_AHEAD);
        let (outgoing, to_write) = channel();
        let (result_sender, written) = channel();
        let thread = || thread::Builder::new().name("control".to_owned());
        thread().spawn(move || read_lines(from, longest, &line_sender))?;
        thread().spawn(move || write_lines(to, &to_write, &result_sender))?;
        let is_stuck = Cell::new(false);
        Ok(Self { _socket: ShutdownOnDrop(socket), lines, outgoing, written, is_stuck })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ConnectionError`] if the peer closed the connection or does not read.
    pub fn send(&self, message: &impl Serialize) -> Result<(), ConnectionError> {
        self.send_within(message, WRITE_LIMIT)
    }

    fn send_within(&self, message: &impl Serialize, limit: Duration) -> Result<(), ConnectionError> {
        let closed = || ConnectionError(CLOSED.to_owned());
        if self.is_stuck.get() {
            return Err(timed_out());
        }
        self.outgoing.send(line(message)).map_err(|_| closed())?;
        match self.written.recv_timeout(limit) {
            Ok(written) => written.map_err(|error| ConnectionError(describe_error(&error))),
            Err(RecvTimeoutError::Disconnected) => Err(closed()),
            Err(RecvTimeoutError::Timeout) => {
                self.is_stuck.set(true);
                Err(timed_out())
            }
        }
    }

    /// Returns the next message, or `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection failed or the message is invalid.
    pub fn receive<T: DeserializeOwned>(&self, wait: Duration) -> Result<Option<T>, ConnectionError> {
        match self.lines.recv_timeout(wait) {
            Ok(line) => parse(&line?).map(Some).map_err(ConnectionError),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ConnectionError(CLOSED.to_owned())),
        }
    }
}

fn read_lines(from: impl Read, longest: usize, to: &SyncSender<Result<String, ConnectionError>>) {
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

/// Writes lines until the connection is dropped or fails.
fn write_lines(mut to: impl Write, lines: &Receiver<Vec<u8>>, written: &Sender<io::Result<()>>) {
    for line in lines {
        let result = to.write_all(&line).and_then(|()| to.flush());
        let has_failed = result.is_err();
        if written.send(result).is_err() || has_failed {
            return;
        }
    }
}

fn timed_out() -> ConnectionError {
    ConnectionError("connection timed out".to_owned())
}

/// Describes an error of a connection.
pub fn describe_error(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => timed_out().0,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Returns a connection over a pair of sockets, and the other end.
    fn connection(longest: usize) -> (LineConnection, UnixStream) {
        let (other, socket) = UnixStream::pair().expect("a pair");
        let from = Box::new(socket.try_clone().expect("a socket"));
        let streams = ControlStreams { from, to: Box::new(socket), socket: None };
        (LineConnection::new(streams, longest).expect("threads"), other)
    }

    #[test]
    fn lines_are_received_in_order_until_the_end() {
        let (connection, mut other) = connection(8);
        assert_eq!(connection.receive::<u32>(Duration::ZERO), Ok(None));
        other.write_all(b"7\n\"six\"\n12").expect("sent");
        drop(other);
        assert_eq!(connection.receive(LIMIT), Ok(Some(7)));
        assert_eq!(connection.receive(LIMIT), Ok(Some("six".to_owned())));
        let end = connection.receive::<u32>(LIMIT).expect_err("an incomplete line");
        assert!(end.is_closed(), "{end}");
        assert!(connection.receive::<u32>(LIMIT).is_err_and(|end| end.is_closed()));
    }

    #[test]
    fn closed_connection_rejects_messages() {
        let (connection, mut other) = connection(8);
        assert_eq!(connection.send(&7), Ok(()));
        let mut line = [0; 2];
        other.read_exact(&mut line).expect("received");
        assert_eq!(&line, b"7\n");
        drop(other);
        assert!(connection.send(&8).is_err_and(|error| error.is_closed()));
        assert!(connection.send(&9).is_err_and(|error| error.is_closed()));
    }

    #[test]
    fn peer_that_does_not_read_is_reported_within_the_limit() {
        let (connection, _other) = connection(8);
        let most = "x".repeat(16 << 20);
        let error = connection.send_within(&most, Duration::from_millis(50)).expect_err("not read");
        assert_eq!(error.to_string(), "connection timed out");
        assert_eq!(connection.send(&7), Err(error), "the writer is still blocked");
    }
}
