//! The first two lines on the control channel of a daemon, in JSON: the client's hello and the
//! daemon's greeting.

use crate::capacity::messages::CapacityOffer;
use crate::line::sanitize;
use crate::request::VERSION;
use crate::TransferError;
use numaio_mover::wire::Side;
use numaio_schema::LentCapacity;
use serde::{Deserialize, Serialize};

/// Maximum length of either line.
pub const MAX_LINE_BYTES: usize = 4 << 10;

/// The request of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonHello {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// The claimed user; the key decides.
    pub user: Option<String>,
    /// Name of the root.
    pub root: String,
    /// Whether the client reads files from the root (the daemon is the source).
    pub takes_files: bool,
    /// Whether the client has no key of its own, and made one for this connection.
    pub has_no_key: bool,
    /// The capacity that the client's host lends.
    pub capacity: HelloCapacity,
}

/// The capacity that the host of a client lends to a transfer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloCapacity {
    /// Public key of the host's daemon; `None` without one.
    pub host: Option<String>,
    /// Its offer, if it reserves its devices first.
    pub offer: Option<CapacityOffer>,
}

/// The exchange of capacity between a daemon and its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapacityExchange {
    /// Nothing: there is no daemon.
    #[default]
    None,
    /// The daemon reports what the session has or waits for.
    Reports,
    /// Also the daemons of both hosts agree on a rate.
    Negotiates,
}

impl DaemonHello {
    /// A hello for a root; `daemon` is the daemon's side.
    pub fn new(
        (user, has_no_key): (Option<String>, bool),
        root: &str,
        daemon: Side,
        capacity: HelloCapacity,
    ) -> Self {
        let takes_files = daemon == Side::Source;
        Self { numaio_copy: VERSION, user, root: root.to_owned(), takes_files, has_no_key, capacity }
    }

    /// Reads the hello of a client of the same version.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn parse(line: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            numaio_copy: u32,
        }
        let unknown = |_| "expected the hello of numaio copy".to_owned();
        let Version { numaio_copy: theirs } = serde_json::from_str(line).map_err(unknown)?;
        if theirs != VERSION {
            return Err(TransferError::OtherVersion { theirs, ours: VERSION }.to_string());
        }
        serde_json::from_str(line).map_err(unknown)
    }

    /// Returns the daemon's side of the transfer.
    pub fn side(&self) -> Side {
        if self.takes_files {
            Side::Source
        } else {
            Side::Sink
        }
    }
}

/// The daemon's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonGreeting {
    /// The client may send its request.
    Welcome {
        /// Maximum number of data connections from the source to the sink.
        streams: u16,
        /// The exchange of capacity.
        capacity: CapacityExchange,
    },
    /// The session waits in the queue; another greeting follows.
    Queued {
        /// Position, from 1.
        position: u64,
        /// Why it waits.
        reason: String,
        /// Seconds until it probably starts; `None` if unknown.
        starts_in: Option<u64>,
    },
    /// Permanently refused, with the reason.
    Refused(String),
    /// Currently refused, with the reason.
    Busy(String),
}

impl DaemonGreeting {
    /// Returns a permanent refusal.
    ///
    /// The reason may quote the hello, so it is sanitized and truncated to fit in a line of JSON.
    pub fn refused(why: &str) -> Self {
        Self::Refused(sanitize(why))
    }

    /// Returns a place in the queue, with a reason sanitized and truncated in the same way.
    pub fn queued(lent: &LentCapacity) -> Self {
        let LentCapacity { position, starts_in, .. } = *lent;
        Self::Queued { position: position.unwrap_or(1), reason: sanitize(&lent.reason), starts_in }
    }

    /// Returns a temporary refusal, sanitized and truncated in the same way.
    pub fn busy(why: &str) -> Self {
        Self::Busy(sanitize(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_both_versions() {
        let refused = DaemonHello::parse(r#"{"numaio_copy":7,"news":true}"#).expect_err("another version");
        assert_eq!(refused, "the other numaio speaks version 7, and this one 1");
        let hello = r#"{"numaio_copy":1,"user":null,"root":"data","takes_files":true,"has_no_key":false,"capacity":{}}"#;
        assert_eq!(DaemonHello::parse(hello).map(|hello| hello.side()), Ok(Side::Source));
    }

    #[test]
    fn refusals_fit_in_a_greeting() {
        for long in ["\u{1}", "\"", "\u{7f}", "ä", "\u{10ffff}"].map(|char| char.repeat(MAX_LINE_BYTES)) {
            for greeting in [DaemonGreeting::refused(&long), DaemonGreeting::busy(&format!("{long:?}"))] {
                let line = serde_json::to_string(&greeting).expect("JSON");
                assert!(line.len() <= MAX_LINE_BYTES, "{} bytes", line.len());
            }
        }
    }
}
