//! One line after the other over a connection, with limits on length and time.

use super::protocol::{line, parse};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the other side may take to accept a line of ours.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Lines that are read ahead. Beyond them the other side's own buffers fill, and it waits.
const LINES_AHEAD: usize = 16;

/// The connection is of no more use; why, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost(pub String);

/// What a connection's end is called.
pub const CLOSED: &str = "the connection was closed";

impl Lost {
    /// Whether the other side only closed the connection.
    pub fn is_end(&self) -> bool {
        self.0 == CLOSED
    }
}

/// A connection over which lines go both ways; closed when dropped.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    /// None only while it is dropped.
    lines: Option<Receiver<Result<String, Lost>>>,
    reader: Option<JoinHandle<()>>,
}

impl Wire {
    /// Over a connection. No line of the other side may have more than `longest` bytes.
    ///
    /// # Errors
    /// The kernel's.
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

    /// Says something.
    ///
    /// # Errors
    /// [`Lost`] if the other side is gone, or does not listen.
    pub fn say(&self, said: &impl Serialize) -> Result<(), Lost> {
        (&self.socket).write_all(&line(said)).map_err(|error| Lost(words(&error)))
    }

    /// What the other side says next; none if it says nothing for so long.
    ///
    /// # Errors
    /// [`Lost`] if it is gone, or says what cannot be understood.
    pub fn next<T: DeserializeOwned>(&self, wait: Duration) -> Result<Option<T>, Lost> {
        let closed = || Lost(CLOSED.to_owned());
        let lines = self.lines.as_ref().ok_or_else(closed)?;
        match lines.recv_timeout(wait) {
            Ok(line) => parse(&line?).map(Some).map_err(Lost),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(closed()),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The reader waits for the socket, or for room in the channel: both end here.
        drop(self.socket.shutdown(Shutdown::Both));
        self.lines = None;
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}

fn read_lines(from: TcpStream, longest: usize, to: &SyncSender<Result<String, Lost>>) {
    let mut from = BufReader::new(from);
    loop {
        let line = read_line(&mut from, longest);
        let last = line.is_err();
        if to.send(line).is_err() || last {
            return;
        }
    }
}

fn read_line(from: &mut impl BufRead, longest: usize) -> Result<String, Lost> {
    let mut line = Vec::new();
    let read = from.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut line);
    read.map_err(|error| Lost(words(&error)))?;
    match line.pop() {
        Some(b'\n') => String::from_utf8(line).map_err(|_| Lost("what it says is no text".to_owned())),
        _ if line.len() >= longest => Err(Lost(format!("it says more than {longest} bytes in one line"))),
        _ => Err(Lost(CLOSED.to_owned())),
    }
}

/// Reads the first line of a connection, and not one byte more: what follows may be no line.
///
/// # Errors
/// [`Lost`] if it is longer than `longest` bytes, or has not come after `limit`.
pub fn first_line(mut from: &TcpStream, longest: usize, limit: Duration) -> Result<String, Lost> {
    let deadline = Instant::now() + limit;
    let mut line = Vec::new();
    while line.len() <= longest {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Lost("it took too long to say what it wants".to_owned()));
        }
        from.set_read_timeout(Some(left)).map_err(|error| Lost(words(&error)))?;
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) => return Err(Lost(CLOSED.to_owned())),
            Ok(_) if byte == *b"\n" => {
                return String::from_utf8(line).map_err(|_| Lost("what it says is no text".to_owned()));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Lost(words(&error))),
        }
    }
    Err(Lost(format!("it says more than {longest} bytes in its first line")))
}

/// An error of a connection, for people.
pub fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}
