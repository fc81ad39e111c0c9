//! Limits of the wire format, and violations of the protocol.

use crate::entry::EntryError;
use crate::name::{Name, NameError};
use crate::port::BlockSize;

/// The first bytes of every stream. The first one is not ASCII, to distinguish text protocols.
pub const MAGIC: [u8; 8] = *b"\x93numaio\n";
/// The protocol version of this code.
pub const VERSION: u16 = 1;
/// Maximum bytes of a frame payload. The largest possible entry fits.
pub const MAX_PAYLOAD: usize = 524_288;
/// Maximum bytes of data after a chunk header: one block. A side accepts only its own block size.
pub const MAX_CHUNK: u64 = BlockSize::MAX as u64;
/// Maximum parts of a chunk.
pub const MAX_PARTS: usize = 1_024;
/// Maximum requests of a frame.
pub const MAX_REQUESTS: usize = 1_024;
/// Maximum bytes of a message text.
pub const MAX_TEXT: usize = 1_024;

/// A protocol violation of the peer. The stream is unusable afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The stream does not start with [`MAGIC`].
    #[error("the peer does not speak the numaio protocol")]
    Magic,
    /// The peer has another protocol version.
    #[error("the peer speaks protocol version {0}, not {VERSION}")]
    Version(u16),
    /// A frame has an unknown kind.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// A value is longer than its limit; it was not read.
    #[error("{what} of {length} exceeds the limit of {limit}")]
    TooLong {
        /// The kind of value.
        what: &'static str,
        /// The announced length.
        length: u64,
        /// The maximum length.
        limit: u64,
    },
    /// A frame ends in the middle of a value.
    #[error("the frame is truncated within {0}")]
    Truncated(&'static str),
    /// A frame continues after its last field.
    #[error("the frame has trailing bytes")]
    Trailing,
    /// A value is invalid or not allowed in this state.
    #[error("invalid data from the peer: {0}")]
    InvalidValue(&'static str),
    /// A value is valid but not in its only allowed encoding.
    #[error("{0} is not in canonical form")]
    NotCanonical(&'static str),
    /// A file name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An entry has a value that is out of range.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// An entry is not part of what the user of the sink requested.
    #[error("the source sent an entry that was not requested: {0}")]
    NotRequested(Name),
    /// The stream continues after its end frame.
    #[error("data after the end of the stream")]
    AfterEnd,
    /// The stream was closed before its end frame.
    #[error("the stream ended before its end frame")]
    UnexpectedEnd,
}
