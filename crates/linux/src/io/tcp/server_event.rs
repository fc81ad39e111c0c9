//! Events of a server.

use std::net::SocketAddr;

/// Event that a server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// A session or stream was rejected.
    Rejected {
        /// Address of the peer.
        from: SocketAddr,
        /// The reason.
        why: String,
    },
    /// A session started.
    SessionStarted {
        /// Address of the client.
        from: SocketAddr,
    },
    /// A session ended.
    SessionEnded {
        /// The error, or `None` if the client closed the session.
        why: Option<String>,
    },
}
