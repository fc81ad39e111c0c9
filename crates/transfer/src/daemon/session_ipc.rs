//! IPC between the daemon and a session process: newline-delimited JSON over the socket on the
//! session's stdin.

use crate::line::json_line;
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

/// The first message of a session.
#[derive(Debug, Serialize, Deserialize)]
pub enum SessionReport {
    /// Request to admit an authenticated user with this name.
    Admission(String),
    /// The client did not authenticate; the reason. The daemon limits these lines of its log.
    Unauthenticated(String),
}

/// Request of a session for the data connections with a ticket, which arrive over the same socket.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataConnectionsRequest {
    /// The ticket of the connections.
    pub ticket: [u8; 16],
}

/// Whether the daemon admits the user; the error is the reason for the refusal.
pub type AdmissionReply = Result<(), String>;

/// Maximum length of the line with a [`SessionStart`].
pub const MAX_START_BYTES: usize = 64 << 20;
/// Maximum length of a line of a session.
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// Sends a message as one line.
pub fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    to.write_all(json_line(message)?.as_bytes())
}

/// Receives a line of at most `max_bytes` within `limit`; `None` if the other process has closed
/// the socket.
pub fn receive<T: DeserializeOwned>(
    mut from: &UnixStream,
    max_bytes: usize,
    limit: Option<Duration>,
) -> io::Result<Option<T>> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut line = Vec::new();
    let mut buffer = vec![0; max_bytes.min(64 << 10)];
    while line.last() != Some(&b'\n') {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        if line.len() >= max_bytes {
            return Err(io::Error::other("a line is too long"));
        }
        from.set_read_timeout(left)?;
        match from.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => line.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
