//! What is heard in a daemon, decoded as it is there: see [`crate::decoders`].

use super::config::Config;
use super::desk::{hear, Request, LONGEST_REQUEST};
use super::session;
use crate::commands::copy::hello::Greeting;
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
    pub takes: bool,
}

/// Whether somebody with a key is served who says this.
///
/// # Errors
/// The line that is answered otherwise.
pub fn hello(config: &Config, key: PublicKey, said: &str) -> Result<Admitted, String> {
    match session::admit(config, key, said) {
        Ok(it) => Ok(Admitted {
            user: it.user.to_owned(),
            root: it.root.to_owned(),
            takes: it.side == Side::Source,
        }),
        Err(why) => Err(json_line(&Greeting::refused(&why)).unwrap_or_default()),
    }
}

/// The user that a session names to its daemon; none if that is not what it says. At most so many bytes may come as a local
/// socket takes at once.
pub fn request(said: &[u8]) -> Option<String> {
    let (mut session, daemon) = UnixStream::pair().ok()?;
    session.set_nonblocking(true).ok()?;
    session.write_all(said).ok()?;
    session.shutdown(Shutdown::Write).ok()?;
    let heard: Option<Request> = hear(&daemon, LONGEST_REQUEST, Some(Duration::from_secs(1))).ok()?;
    heard.map(|request| request.user)
}
