//! What a daemon and its sessions say to each other: one line of JSON each, over a socket that is the session's standard input.

use crate::commands::json_line;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What a session is told first.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionStart {
    /// The text of the daemon's file.
    pub config: String,
    /// Who calls.
    pub caller: String,
}

/// What a session asks when it knows whose it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct AdmissionRequest {
    pub user: String,
}

/// What a session asks for next, if it is to have data connections: those with a ticket, which then come over the same socket.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataConnectionsRequest {
    pub ticket: [u8; 16],
}

/// Whether the session may go on; else why not.
pub type AdmissionReply = Result<(), String>;

/// Longest line of a daemon, and of a session.
pub const MAX_START_BYTES: usize = 64 << 20;
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// Says a line.
pub fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    to.write_all(json_line(message)?.as_bytes())
}

/// Hears a line of at most so many bytes, within so long, if that is limited; none if the other side has ended.
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
