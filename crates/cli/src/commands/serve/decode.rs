//! Decoders of a daemon's input, for fuzzing: see [`crate::decoders`].

use super::config::Config;
use super::session;
use super::session_ipc::{receive, AdmissionRequest, MAX_REQUEST_BYTES};
use crate::commands::copy::daemon_hello::DaemonGreeting;
use crate::output::json_line;
use numaio_mover::wire::Side;
use numaio_mover_linux::port::net::PublicKey;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// An admitted client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The user with the client's key.
    pub user: String,
    /// The requested root.
    pub root: String,
    /// Whether the client reads files from the root (the daemon is the source), or writes to it.
    pub is_source: bool,
}

/// Decodes a hello of a client with a key, and decides whether the daemon serves it.
///
/// # Errors
/// The refusal that the daemon replies, as one line.
pub fn hello(config: &Config, key: PublicKey, received: &str) -> Result<Admitted, String> {
    match session::admit(config, key, received) {
        Ok(it) => Ok(Admitted {
            user: it.user.to_owned(),
            root: it.root.to_owned(),
            is_source: it.side == Side::Source,
        }),
        Err(why) => Err(json_line(&DaemonGreeting::refused(&why)).unwrap_or_default()),
    }
}

/// Decodes a session's admission request and returns its user; `None` if it is invalid.
///
/// `received` is limited to the buffer of a local socket.
pub fn admission_request(received: &[u8]) -> Option<String> {
    let (mut session, daemon) = UnixStream::pair().ok()?;
    session.set_nonblocking(true).ok()?;
    session.write_all(received).ok()?;
    session.shutdown(Shutdown::Write).ok()?;
    let request: Option<AdmissionRequest> =
        receive(&daemon, MAX_REQUEST_BYTES, Some(Duration::from_secs(1))).ok()?;
    request.map(|request| request.user)
}
