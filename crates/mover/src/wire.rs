//! The wire format between source and sink, version 1, as specified in
//! `docs/internals/protocol.md`.
//!
//! Every message has exactly one valid encoding, and the decoder rejects all others. So accepted
//! streams can be compared byte by byte, and two implementations cannot interpret them differently.

use crate::entry::{EntryError, FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::name::{is_terminal_unsafe, Name, NameError};
use crate::port::{Digest, BLOCK};
use crate::report::ChangeKind;

pub(crate) mod batch;
pub(crate) mod bytes;
mod decoder;
mod frame;
mod store;
#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchEncoder, MAX_BATCH};
pub use decoder::{Decoder, StreamItem};
pub use store::EntryStore;

/// The first bytes of every stream. The first one is not ASCII, to distinguish text protocols.
pub const MAGIC: [u8; 8] = *b"\x93numaio\n";
/// The protocol version that this code writes.
pub const VERSION: u16 = 1;
/// The oldest protocol version that this code reads.
pub const MIN_VERSION: u16 = 1;
/// Maximum bytes of a frame payload. The largest possible entry fits.
pub const MAX_PAYLOAD: usize = 524_288;
/// Maximum bytes of data after a chunk header: one buffer.
pub const MAX_CHUNK: u64 = BLOCK as u64;
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
    /// The peer writes an unsupported protocol version.
    #[error("the peer writes protocol version {version} and reads versions from {lowest}; supported here: {MIN_VERSION} to {VERSION}")]
    Version {
        /// The oldest version that the peer reads.
        lowest: u16,
        /// The version that the peer writes.
        version: u16,
    },
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

/// A side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that reads files.
    Source,
    /// The side that writes files.
    Sink,
}

/// The identity of a transfer: 16 random bytes, or a hash of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransferId(pub [u8; 16]);

/// The first message of each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHeader {
    /// The sending side.
    pub side: Side,
    /// The transfer.
    pub transfer: TransferId,
}

/// A message after the stream header. Frames come in any order, but [`Frame::End`] is the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Entries of the scan; sent by the source.
    Batch(Batch),
    /// The header of file data. The data, possibly compressed, follows outside of any frame.
    Chunk(Chunk),
    /// Ranges of a file that are not sent because they read as zeros.
    Holes(Holes),
    /// All requested parts of a file were sent.
    FileSent(FileSent),
    /// A problem of the sending side.
    Problem(Problem),
    /// The end of the stream.
    End(EndTotals),
    /// The data that the sink needs of announced files.
    DataRequests(DataRequests),
    /// The hash of a file; sent by the source on request.
    FileHash(FileHash),
    /// The final hash of a file at the sink; sent by the sink for a manifest.
    ManifestEntry(ManifestEntry),
    /// A change at the sink; sent by the sink if the user is at the source.
    Change(SinkChange),
}

/// The header of data: the parts of files that follow, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    hash: HashKind,
    parts: Vec<ChunkPart>,
    compressed_length: Option<u64>,
}

/// A part of a file and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// The file.
    pub file: FileNumber,
    /// The range of bytes.
    pub extent: Extent,
    /// The hash of these bytes.
    pub digest: Digest,
}

impl Chunk {
    /// Creates the header of uncompressed data.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_PARTS`] parts or [`MAX_CHUNK`] bytes,
    /// [`WireError::InvalidValue`] for none.
    pub fn new(hash: HashKind, parts: Vec<ChunkPart>) -> Result<Self, WireError> {
        if parts.is_empty() {
            return Err(WireError::InvalidValue("a chunk without parts"));
        }
        if parts.len() > MAX_PARTS {
            return Err(WireError::TooLong {
                what: "a chunk",
                length: parts.len() as u64,
                limit: MAX_PARTS as u64,
            });
        }
        let chunk = Self { hash, parts, compressed_length: None };
        match chunk.length() {
            length if length > MAX_CHUNK => {
                Err(WireError::TooLong { what: "a chunk", length, limit: MAX_CHUNK })
            }
            _ => Ok(chunk),
        }
    }

    /// Marks the data as compressed to `bytes` bytes, all parts together.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless `bytes` is at least 1 and less than the uncompressed
    /// length.
    pub fn compressed_to(self, bytes: u64) -> Result<Self, WireError> {
        match (1..self.length()).contains(&bytes) {
            true => Ok(Self { compressed_length: Some(bytes), ..self }),
            false => Err(WireError::InvalidValue("the length of compressed data")),
        }
    }

    /// Returns the number of compressed bytes, if the data is compressed.
    pub fn compressed_length(&self) -> Option<u64> {
        self.compressed_length
    }

    /// Returns the number of bytes that follow the frame.
    pub fn wire_length(&self) -> u64 {
        self.compressed_length.unwrap_or(self.length())
    }

    /// Returns the hash function of the parts.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the parts in the order of their data.
    pub fn parts(&self) -> &[ChunkPart] {
        &self.parts
    }

    /// Returns the number of uncompressed bytes of all parts.
    pub fn length(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.extent.length()))
    }
}

/// Holes that the entry of a file declared as data because it has too many; sent before its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holes {
    file: FileNumber,
    extents: Vec<Extent>,
}

impl Holes {
    /// Creates a list of holes in ascending order.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_EXTENTS`], [`WireError::InvalidValue`] for none
    /// or if they are out of order.
    pub fn new(file: FileNumber, extents: Vec<Extent>) -> Result<Self, WireError> {
        check_extents(&extents)?;
        Ok(Self { file, extents })
    }

    /// Returns the file.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// Returns the holes, in multiples of the block size.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

/// Checks that there are extents, not too many, in ascending order and not touching.
fn check_extents(extents: &[Extent]) -> Result<(), WireError> {
    let (length, limit) = (extents.len() as u64, MAX_EXTENTS as u64);
    if length > limit {
        return Err(WireError::TooLong { what: "the extents of a file", length, limit });
    }
    if extents.is_empty() || !extents.windows(2).all(|pair| pair[0].end() < pair[1].start()) {
        return Err(WireError::InvalidValue("the extents of a file"));
    }
    Ok(())
}

/// All requested parts of a file were sent, and the file did not change meanwhile. Not sent for a
/// file that was sent as a single part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSent {
    /// The file.
    pub file: FileNumber,
    /// Bytes that were sent or declared as holes.
    pub bytes: u64,
}

/// The content hash of a file at the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHash {
    /// The file.
    pub file: FileNumber,
    /// BLAKE3 with 256 bits.
    pub digest: Digest,
}

/// The final content hash of a file at the sink: a line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The name at the sink.
    pub name: Name,
    /// BLAKE3 with 256 bits.
    pub digest: Digest,
}

/// A change at the sink, or in a dry run a change that would have been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkChange {
    /// The name at the sink.
    pub name: Name,
    /// The kind of change.
    pub action: ChangeKind,
    /// Bytes of data transferred for it; 0 unless the file was copied.
    pub bytes: u64,
}

/// The data that the sink needs, in any order. Every regular file is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRequests(Vec<DataRequest>);

/// The data that the sink needs of files with consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRequest {
    /// The first file.
    pub first: FileNumber,
    /// The number of files, at least 1.
    pub count: u64,
    /// The data needed of each file.
    pub what: NeededData,
}

/// The data that the sink needs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededData {
    /// No data: the sink has it, or cannot store it.
    Nothing,
    /// All data.
    All,
    /// These ranges; at least one.
    Some(Vec<Extent>),
    /// The content hash; another request for the file follows.
    Hash,
}

impl DataRequests {
    /// Creates a list of requests.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_REQUESTS`] requests or too many extents,
    /// [`WireError::InvalidValue`] for none or if extents are out of order.
    pub fn new(wants: Vec<DataRequest>) -> Result<Self, WireError> {
        if wants.is_empty() {
            return Err(WireError::InvalidValue("a frame without requests"));
        }
        if wants.len() > MAX_REQUESTS {
            return Err(WireError::TooLong {
                what: "a list of requests",
                length: wants.len() as u64,
                limit: MAX_REQUESTS as u64,
            });
        }
        for want in &wants {
            let last = want.first.get().checked_add(want.count);
            if want.count == 0 || last.and_then(|last| FileNumber::new(last - 1).ok()).is_none() {
                return Err(WireError::InvalidValue("a file count"));
            }
            if let NeededData::Some(extents) = &want.what {
                check_extents(extents)?;
            }
        }
        Ok(Self(wants))
    }

    /// Returns the requests.
    pub fn into_inner(self) -> Vec<DataRequest> {
        self.0
    }
}

/// A failure of one side: the object, the reason and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The object that the problem concerns.
    pub about: ProblemSubject,
    /// The side where it occurred.
    pub side: Side,
    /// The reason, for programs.
    pub reason: Reason,
    /// The reason, for people.
    pub text: DisplayText,
}

/// The object that a problem concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemSubject {
    /// The transfer, which ends.
    Transfer,
    /// A file, with its name for display; the transfer continues.
    File(FileNumber, Name),
    /// A name without a file number because it could not be examined.
    Name(Name),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The reason of a problem. Variant names are part of the JSON events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons, ordered by code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

reasons! {
    /// A reason without a code; see the text.
    Other = 1,
    /// The object does not exist, or no longer exists.
    NotFound = 2,
    /// Permission to read or write was denied.
    Permission = 3,
    /// The file system is full.
    NoSpace = 4,
    /// The user's quota is exhausted.
    Quota = 5,
    /// The file system is mounted read-only.
    ReadOnly = 6,
    /// The name is too long for the file system.
    NameTooLong = 7,
    /// A symbolic link is part of a loop or leaves the root.
    Link = 8,
    /// Another object has this name.
    Exists = 9,
    /// The file changed while it was read.
    Changed = 10,
    /// The hashes of source and sink differ.
    Mismatch = 11,
    /// The file system of the peer or the protocol does not support the object.
    Unsupported = 12,
    /// The device failed.
    Device = 13,
    /// The peer violated the protocol.
    Protocol = 14,
    /// A user or administrator cancelled the transfer.
    Cancelled = 15,
    /// A timeout expired.
    TimedOut = 16,
}

/// A one-line message for people, without characters that a terminal would interpret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisplayText(Box<str>);

impl DisplayText {
    /// Creates a message: terminal controls are replaced, and it is truncated to [`MAX_TEXT`]
    /// bytes.
    pub fn new(words: &str) -> Self {
        let mut text = String::new();
        let harmless = words.chars().map(|char| if is_terminal_unsafe(char) { '\u{fffd}' } else { char });
        for char in harmless {
            if text.len() + char.len_utf8() > MAX_TEXT {
                break;
            }
            text.push(char);
        }
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_wire(bytes: &[u8]) -> Result<Self, WireError> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| WireError::InvalidValue("a text that is not UTF-8"))?;
        if text.chars().any(is_terminal_unsafe) {
            return Err(WireError::InvalidValue("a text with control characters"));
        }
        Ok(Self(text.into()))
    }
}

/// Totals of one side, sent at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndTotals {
    /// Entries sent or completed.
    pub entries: u64,
    /// Entries with a reported problem.
    pub failed: u64,
    /// Bytes of data sent or stored.
    pub bytes: u64,
    /// Bytes of data that had to be transferred. Known to a sink only, like the fields below; a
    /// source sends 0.
    pub size: u64,
    /// Bytes of data kept from an interrupted transfer.
    pub resumed: u64,
    /// Entries left unchanged.
    pub unchanged: u64,
    /// Entries removed.
    pub removed: u64,
}
