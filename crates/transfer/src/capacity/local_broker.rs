//! The broker of this host, from which a transfer of this host borrows capacity.

use super::link::{CapacityLink, PROGRESS_INTERVAL};
use super::messages::{CapacityReply, CapacityRequest, LocalTransfer, PeerMessage, MAX_REPLY_BYTES};
use crate::json_lines::{is_timeout, receive, send, LineReader};
use numaio_schema::{LentCapacity, QueuedTransfer};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a daemon listens unless it is configured.
pub const DEFAULT_SOCKET: &str = "/run/numaio/broker";
/// Environment variable with another path; an empty one means no broker.
pub const SOCKET_VARIABLE: &str = "NUMAIO_BROKER";
/// How long the broker may take to reply: it runs on the same machine, and reports a place every
/// three seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the path of the broker's socket; `None` if there is none by request.
pub fn socket() -> Option<PathBuf> {
    let path = std::env::var_os(SOCKET_VARIABLE).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from);
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

/// A transfer that was submitted to the broker of this host.
#[derive(Debug)]
pub struct SubmittedTransfer {
    replies: LineReader<UnixStream>,
    last_reply: Instant,
    last_request: Instant,
    /// Messages for the other host so far.
    for_peer: Vec<PeerMessage>,
}

impl SubmittedTransfer {
    /// Submits a transfer to the broker at a path.
    ///
    /// # Errors
    /// No broker is there.
    pub fn submit(path: &Path, transfer: &LocalTransfer) -> io::Result<Self> {
        let socket = request(path, &CapacityRequest::Submit(transfer.clone()))?;
        let now = Instant::now();
        Ok(Self {
            replies: LineReader::new(socket),
            last_reply: now,
            last_request: now,
            for_peer: Vec::new(),
        })
    }

    /// Waits at most for `patience`, and returns the next reply; `None` if there is none. Messages
    /// for the other host are kept for the link.
    ///
    /// # Errors
    /// The broker has exited, or does not respond.
    pub fn next(&mut self, patience: Duration) -> io::Result<Option<CapacityReply>> {
        if self.last_request.elapsed() >= PROGRESS_INTERVAL {
            // Shows that the transfer still waits.
            send(self.replies.socket(), &CapacityRequest::Progress(0))?;
            self.last_request = Instant::now();
        }
        let reply = self.replies.receive(MAX_REPLY_BYTES, Some(patience));
        let reply = match reply.map(|reply| reply.map(CapacityReply::sanitized)) {
            Err(error) if is_timeout(&error) && self.last_reply.elapsed() < REPLY_TIMEOUT => return Ok(None),
            Err(error) if is_timeout(&error) => return Err(io::Error::new(ErrorKind::TimedOut, "no reply")),
            reply => reply?.ok_or(ErrorKind::UnexpectedEof)?,
        };
        self.last_reply = Instant::now();
        match reply {
            CapacityReply::ForPeer(message) => {
                self.for_peer.push(message);
                Ok(None)
            }
            reply => Ok(Some(reply)),
        }
    }

    /// Returns the link of a transfer that begins with what is `lent`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn begin(self, lent: LentCapacity) -> io::Result<CapacityLink> {
        let link = CapacityLink::start(self.replies, Some(lent))?;
        self.for_peer.into_iter().for_each(|message| link.current().send_to_peer(message));
        Ok(link)
    }
}

/// Connects to the broker at a path, and sends it a first message.
fn request(path: &Path, request: &CapacityRequest) -> io::Result<UnixStream> {
    let socket = UnixStream::connect(path)?;
    socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
    send(&socket, request)?;
    Ok(socket)
}

/// Returns the transfers that this user may see.
///
/// # Errors
/// No broker is there, or it does not respond.
pub fn list(path: &Path) -> io::Result<Vec<QueuedTransfer>> {
    let socket = request(path, &CapacityRequest::List)?;
    match receive(&socket, MAX_REPLY_BYTES, Some(REPLY_TIMEOUT))?.map(CapacityReply::sanitized) {
        Some(CapacityReply::Transfers(transfers)) => Ok(transfers),
        Some(_) => Err(io::Error::new(ErrorKind::InvalidData, "unexpected reply")),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}
