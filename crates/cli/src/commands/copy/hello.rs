//! What is said on the control channel of a daemon before a transfer is asked for: one line each, in JSON.

use super::order::VERSION;
use numaio_mover::wire::Side;
use serde::{Deserialize, Serialize};

/// Most bytes of either line.
pub const LONGEST: usize = 4 << 10;

/// What the one who calls wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// Who it means to be; the key decides.
    pub user: Option<String>,
    /// Which root.
    pub root: String,
    /// Whether files are taken from there, and not put there.
    pub take: bool,
}

impl Hello {
    pub fn new(user: Option<String>, root: &str, daemon: Side) -> Self {
        Self { numaio_copy: VERSION, user, root: root.to_owned(), take: daemon == Side::Source }
    }

    /// The side that the daemon is to be.
    pub fn side(&self) -> Side {
        if self.take {
            Side::Source
        } else {
            Side::Sink
        }
    }
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Greeting {
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
