//! What is said on the control channel of a daemon before a transfer is asked for: one line each, in JSON.

use super::request::VERSION;
use crate::output::harmless;
use numaio_mover::wire::Side;
use serde::{Deserialize, Serialize};

/// Most bytes of either line.
pub const MAX_LINE_BYTES: usize = 4 << 10;

/// What the one who calls wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonHello {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// Who it means to be; the key decides.
    pub user: Option<String>,
    /// Which root.
    pub root: String,
    /// Whether files are taken from there, and not put there.
    #[serde(rename = "take")]
    pub takes_files: bool,
}

impl DaemonHello {
    pub fn new(user: Option<String>, root: &str, daemon: Side) -> Self {
        Self { numaio_copy: VERSION, user, root: root.to_owned(), takes_files: daemon == Side::Source }
    }

    /// The side that the daemon is to be.
    pub fn side(&self) -> Side {
        if self.takes_files {
            Side::Source
        } else {
            Side::Sink
        }
    }
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonGreeting {
    /// The transfer may be asked for.
    Welcome {
        /// Most data connections from the source to the sink.
        streams: u16,
    },
    /// It may not, and why.
    Refused(String),
    /// Not now, and why.
    Busy(String),
}

impl DaemonGreeting {
    /// As [`Self::Refused`]. What is repeated of a hello may be as long as that, and longer as JSON: so it is cut, and each
    /// character of it takes two bytes at the most.
    pub fn refused(why: &str) -> Self {
        Self::Refused(harmless(why))
    }

    /// As [`Self::Busy`], cut in the same way.
    pub fn busy(why: &str) -> Self {
        Self::Busy(harmless(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_longer_than_a_greeting_may_be() {
        for long in ["\u{1}", "\"", "\u{7f}", "ä", "\u{10ffff}"].map(|char| char.repeat(MAX_LINE_BYTES)) {
            for greeting in [DaemonGreeting::refused(&long), DaemonGreeting::busy(&format!("{long:?}"))] {
                let line = serde_json::to_string(&greeting).expect("JSON");
                assert!(line.len() <= MAX_LINE_BYTES, "{} bytes", line.len());
            }
        }
    }
}
