//! Messages as newline-delimited JSON over a Unix socket.

use crate::line::json_line;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::borrow::Borrow;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Sends a message as one line.
pub fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    to.write_all(json_line(message)?.as_bytes())
}

/// Receives a line of at most `max_bytes` within `limit`; `None` if the other process has closed
/// the socket.
///
/// The other process must not send another line before it gets a reply: [`LineReader`] has no such
/// limit.
pub fn receive<T: DeserializeOwned>(
    from: &UnixStream,
    max_bytes: usize,
    limit: Option<Duration>,
) -> io::Result<Option<T>> {
    let mut reader = LineReader::new(from);
    let message = reader.receive(max_bytes, limit)?;
    match reader.has_more() {
        true => Err(io::Error::other("bytes after the line")),
        false => Ok(message),
    }
}

/// Returns whether an error is the end of the time limit of [`receive`].
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Receives messages.
#[derive(Debug)]
pub struct LineReader<S> {
    socket: S,
    /// Bytes after the last line.
    buffer: Vec<u8>,
}

impl<S: Borrow<UnixStream>> LineReader<S> {
    /// A reader of a socket.
    pub fn new(socket: S) -> Self {
        Self { socket, buffer: Vec::new() }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &UnixStream {
        self.socket.borrow()
    }

    /// Returns whether bytes of another line have arrived.
    pub fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Receives a line of at most `max_bytes` within `limit`; `None` if the other process has
    /// closed the socket.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        max_bytes: usize,
        limit: Option<Duration>,
    ) -> io::Result<Option<T>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut chunk = vec![0; max_bytes.min(64 << 10)];
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            searched = self.buffer.len();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            if self.buffer.len() >= max_bytes {
                return Err(io::Error::other("a line is too long"));
            }
            let mut socket = self.socket.borrow();
            socket.set_read_timeout(left)?;
            match socket.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 1 << 10;

    #[test]
    fn lines_that_arrive_together_are_separate_messages() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        send(&theirs, &"one").expect("sent");
        send(&theirs, &"two").expect("sent");
        drop(theirs);
        let mut reader = LineReader::new(&ours);
        let mut next = || reader.receive::<String>(MAX_BYTES, None).expect("a message");
        assert_eq!([next(), next(), next()].map(Option::unwrap_or_default), ["one", "two", ""]);
    }

    #[test]
    fn rejects_long_lines() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        theirs.write_all(&[b'x'; MAX_BYTES]).expect("sent");
        let received = LineReader::new(&ours).receive::<String>(MAX_BYTES, None);
        assert_eq!(received.expect_err("too long").to_string(), "a line is too long");
    }
}
