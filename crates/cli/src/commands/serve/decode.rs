//! What is heard in a daemon, decoded as it is there: see [`crate::decoders`].

use super::config::Config;
use super::session;
use super::session_ipc::{receive, AdmissionRequest, MAX_REQUEST_BYTES};
use crate::commands::copy::daemon_hello::DaemonGreeting;
use crate::commands::json_line;
use numaio_linux::port::net::PublicKey;
use numaio_mover::wire::Side;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// For whom a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Whose key it is.
    pub user: String,
    /// The root that is entered.
    pub root: String,
    /// Whether files are taken from it, or put into it.
    pub is_source: bool,
}

/// Whether somebody with a key is served who says this.
///
/// # Errors
/// The line that is answered otherwise.
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

/// The user that a session names to its daemon; none if that is not what it says. At most so many bytes may come as a local
/// socket takes at once.
pub fn admission_request(received: &[u8]) -> Option<String> {
    let (mut session, daemon) = UnixStream::pair().ok()?;
    session.set_nonblocking(true).ok()?;
    session.write_all(received).ok()?;
    session.shutdown(Shutdown::Write).ok()?;
    let request: Option<AdmissionRequest> =
        receive(&daemon, MAX_REQUEST_BYTES, Some(Duration::from_secs(1))).ok()?;
    request.map(|request| request.user)
}
