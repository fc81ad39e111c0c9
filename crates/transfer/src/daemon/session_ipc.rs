//! IPC between the daemon and a session process: newline-delimited JSON over the socket on the
//! session's stdin.

use crate::line::json_line;
use numaio_schema::{TransferCounts, TransferDirection, TransferResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The first message of the daemon to a session.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionStart {
    /// The text of the daemon's configuration file.
    pub config: String,
    /// Address of the client.
    pub caller: String,
}

/// A message of a session.
#[derive(Debug, Serialize, Deserialize)]
pub enum SessionReport {
    /// Request to admit an authenticated user; first message.
    Admission(AdmissionRequest),
    /// The client did not authenticate; the reason. The daemon limits these lines of its log.
    Unauthenticated(String),
    /// Request for the data connections with a ticket. The daemon replies with a socket over which
    /// they arrive.
    DataConnections([u8; 16]),
    /// The session of an authenticated user has ended; last message.
    End(SessionEnd),
}

/// Request to admit an authenticated user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// Name of the user.
    pub user: String,
    /// Name of the root.
    pub root: String,
    /// What the user requests.
    pub direction: TransferDirection,
    /// Whether the client accepts to wait in the queue.
    pub can_wait: bool,
}

/// How the session of an authenticated user ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionEnd {
    /// Name of the user.
    pub user: String,
    /// Name of the root, if it is configured; otherwise empty.
    pub root: String,
    /// What the user requested, if that is known.
    pub direction: Option<TransferDirection>,
    /// The result.
    pub result: TransferResult,
    /// Why it did not succeed; otherwise empty.
    pub reason: String,
    /// Identity that all attempts of the transfer share, in hexadecimal digits.
    pub transfer: String,
    /// Whether the client reported a lost earlier attempt.
    pub is_retry: bool,
    /// What was transferred.
    pub counts: TransferCounts,
}

/// A session's place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePosition {
    /// Position, from 1.
    pub position: u64,
    /// Why it waits.
    pub why: String,
}

/// Whether the daemon admits the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionReply {
    /// The session may transfer.
    Admitted,
    /// It waits; another reply follows.
    Queued(QueuePosition),
    /// It is refused for this reason.
    Refused(String),
}

/// Maximum length of the line with a [`SessionStart`].
pub const MAX_START_BYTES: usize = 64 << 20;
/// Maximum length of a line of a session.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;

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

/// Receives the messages of a session.
pub struct LineReader<'s> {
    socket: &'s UnixStream,
    /// Bytes after the last line.
    buffer: Vec<u8>,
}

impl<'s> LineReader<'s> {
    /// A reader of a socket.
    pub fn new(socket: &'s UnixStream) -> Self {
        Self { socket, buffer: Vec::new() }
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
            self.socket.set_read_timeout(left)?;
            let mut socket = self.socket;
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

    #[test]
    fn lines_that_arrive_together_are_separate_messages() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        send(&theirs, &SessionReport::DataConnections([7; 16])).expect("sent");
        send(&theirs, &SessionReport::Unauthenticated("why".to_owned())).expect("sent");
        drop(theirs);
        let mut reader = LineReader::new(&ours);
        let mut next = || reader.receive::<SessionReport>(MAX_REQUEST_BYTES, None).expect("a message");
        assert!(matches!(next(), Some(SessionReport::DataConnections(ticket)) if ticket == [7; 16]));
        assert!(matches!(next(), Some(SessionReport::Unauthenticated(why)) if why == "why"));
        assert!(next().is_none());
    }

    #[test]
    fn rejects_long_lines() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        theirs.write_all(&[b'x'; MAX_REQUEST_BYTES]).expect("sent");
        let received = LineReader::new(&ours).receive::<SessionReport>(MAX_REQUEST_BYTES, None);
        assert_eq!(received.expect_err("too long").to_string(), "a line is too long");
    }
}
