//! A pair of byte streams to the peer.

use std::fmt;
use std::io::{Read, Write};

/// A pair of byte streams to the peer.
pub struct StreamPair {
    /// Incoming stream.
    pub from: Box<dyn Read + Send>,
    /// Outgoing stream.
    pub to: Box<dyn Write + Send>,
}

impl fmt::Debug for StreamPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").finish_non_exhaustive()
    }
}
