//! IPC between the daemon and a session process: newline-delimited JSON over the socket on the
//! session's stdin.

use super::hello::{CapacityExchange, HelloCapacity};
use numaio_schema::{LentCapacity, TransferCounts, TransferDirection, TransferResult};
use serde::{Deserialize, Serialize};

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
    /// The request of the user.
    pub direction: TransferDirection,
    /// The capacity that the client's host lends; `None` for a client that learns nothing about
    /// devices.
    pub capacity: Option<HelloCapacity>,
}

/// How the session of an authenticated user ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionEnd {
    /// Name of the user.
    pub user: String,
    /// Name of the root, if it is configured; otherwise empty.
    pub root: String,
    /// The request of the user, if it is known.
    pub direction: Option<TransferDirection>,
    /// The result.
    pub result: TransferResult,
    /// Why it did not succeed; otherwise empty.
    pub reason: String,
    /// Identity that all attempts of the transfer share, in hexadecimal digits.
    pub transfer: String,
    /// Whether the client reported a lost earlier attempt.
    pub is_retry: bool,
    /// The transferred amounts.
    pub counts: TransferCounts,
}

/// Whether the daemon admits the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionReply {
    /// The session may transfer. It gets changes over another socket.
    Admitted(LentCapacity, CapacityExchange),
    /// It waits; another reply follows.
    Queued(LentCapacity),
    /// It is refused for this reason.
    Refused(String),
}

/// Maximum length of the line with a [`SessionStart`].
pub const MAX_START_BYTES: usize = 64 << 20;
/// Maximum length of a line of a session.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
