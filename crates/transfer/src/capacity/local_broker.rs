//! The broker of this host, from which a transfer of this host borrows capacity.

use super::link::CapacityLink;
use super::messages::{CapacityReply, CapacityRequest, LocalTransfer, MAX_REPLY_BYTES};
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
}

impl SubmittedTransfer {
    /// Submits a transfer to the broker at a path.
    ///
    /// # Errors
    /// No broker is there.
    pub fn submit(path: &Path, transfer: &LocalTransfer) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
        send(&socket, &CapacityRequest::Submit(transfer.clone()))?;
        Ok(Self { replies: LineReader::new(socket), last_reply: Instant::now() })
    }

    /// Waits at most for `patience`, and returns what the transfer has or waits for, or why it is
    /// refused; `None` if there is no news.
    ///
    /// # Errors
    /// The broker has exited, or does not respond.
    pub fn next(&mut self, patience: Duration) -> io::Result<Option<Result<LentCapacity, String>>> {
        let reply = self.replies.receive(MAX_REPLY_BYTES, Some(patience));
        match reply.map(|reply| reply.map(CapacityReply::sanitized)) {
            Err(error) if is_timeout(&error) && self.last_reply.elapsed() < REPLY_TIMEOUT => Ok(None),
            Err(error) if is_timeout(&error) => Err(io::Error::new(ErrorKind::TimedOut, "no reply")),
            Err(error) => Err(error),
            Ok(Some(CapacityReply::Lent(lent))) => {
                self.last_reply = Instant::now();
                Ok(Some(Ok(lent)))
            }
            Ok(Some(CapacityReply::Refused(why))) => Ok(Some(Err(why))),
            Ok(Some(CapacityReply::Transfers(_))) => {
                Err(io::Error::new(ErrorKind::InvalidData, "unexpected reply"))
            }
            Ok(None) => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Returns the link of a transfer that may begin with what is `lent`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn begin(self, lent: LentCapacity) -> io::Result<CapacityLink> {
        CapacityLink::start(self.replies, Some(lent))
    }
}

/// Returns the transfers that this user may see.
///
/// # Errors
/// No broker is there, or it does not respond.
pub fn list(path: &Path) -> io::Result<Vec<QueuedTransfer>> {
    let socket = UnixStream::connect(path)?;
    socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
    send(&socket, &CapacityRequest::List)?;
    match receive(&socket, MAX_REPLY_BYTES, Some(REPLY_TIMEOUT))?.map(CapacityReply::sanitized) {
        Some(CapacityReply::Transfers(transfers)) => Ok(transfers),
        Some(_) => Err(io::Error::new(ErrorKind::InvalidData, "unexpected reply")),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}
