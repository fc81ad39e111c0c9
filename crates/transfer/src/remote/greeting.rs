//! The greeting of a daemon.

use super::first_reply::FirstReply;
use crate::daemon::hello::{CapacityExchange, DaemonGreeting};
use crate::line::sanitize;
use crate::TransferError;
use std::io;
use std::time::Duration;

/// How long the daemon may take to greet, which includes starting a session process.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// The grant of a daemon to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// Maximum number of data connections to the sink.
    pub streams: u16,
    /// The exchange of capacity.
    pub capacity: CapacityExchange,
}

/// Returns the grant of the daemon. The inner error allows a retry.
///
/// # Errors
/// The daemon refuses the session permanently.
pub fn check_greeting(
    host_port: &str,
    received: Option<FirstReply<DaemonGreeting>>,
) -> Result<Result<Welcome, TransferError>, TransferError> {
    let why = match received {
        Some(FirstReply::Reply(DaemonGreeting::Welcome { streams, capacity })) => {
            return Ok(Ok(Welcome { streams, capacity }));
        }
        Some(FirstReply::Reply(DaemonGreeting::Refused(why))) => return Err(refused(host_port, &why)),
        Some(FirstReply::Reply(DaemonGreeting::Busy(why))) => return Ok(Err(refused(host_port, &why))),
        // The caller waits for the next one.
        Some(FirstReply::Reply(DaemonGreeting::Queued { .. })) => io::ErrorKind::TimedOut,
        Some(FirstReply::Unexpected(beginning)) => {
            return Err(refused(host_port, &format!("expected a greeting, got {beginning}")))
        }
        Some(FirstReply::Closed) => io::ErrorKind::UnexpectedEof,
        None => io::ErrorKind::TimedOut,
    };
    Ok(Err(unreachable(host_port, why.into())))
}

/// The error of a daemon that does not answer.
pub fn unreachable(host_port: &str, error: io::Error) -> TransferError {
    TransferError::DaemonUnreachable { host: host_port.to_owned(), error }
}

/// The error with the daemon's reason.
fn refused(host_port: &str, why: &str) -> TransferError {
    TransferError::Refused { host: host_port.to_owned(), why: sanitize(why) }
}
