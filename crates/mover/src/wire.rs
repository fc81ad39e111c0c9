//! What the two sides of a transfer say to each other, as bytes: `docs/internals/protocol.md`, version 1.
//!
//! Everything has exactly one encoding, and the decoder takes no other. So a stream that was taken can be
//! recorded and compared byte by byte, and two implementations cannot read the same bytes differently.

use crate::entry::{EntryError, FileNumber, MAX_EXTENTS};
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::name::{misleads, Name, NameError};
use crate::report::Action;
use numaio_machine::port::{Digest, BLOCK};

pub(crate) mod batch;
pub(crate) mod bytes;
mod decoder;
mod frame;
mod store;
#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchEncoder, MAX_BATCH};
pub use decoder::{Decoder, Received};
pub use store::EntryStore;

/// First bytes of every stream: not text, so that a stream of another kind is not taken for one.
pub const MAGIC: [u8; 8] = *b"\x93numaio\n";
/// The version of the protocol that is written.
pub const VERSION: u16 = 1;
/// The oldest version that can be read.
pub const LOWEST_VERSION: u16 = 1;
/// Most bytes of a frame's payload. The largest possible entry fits.
pub const MAX_PAYLOAD: usize = 524_288;
/// Most bytes of data behind one chunk header: what one buffer holds.
pub const MAX_CHUNK: u64 = BLOCK as u64;
/// Most parts of a chunk.
pub const MAX_PARTS: usize = 1_024;
/// Most answers of a frame of wants.
pub const MAX_WANTS: usize = 1_024;
/// Most bytes of words for people.
pub const MAX_TEXT: usize = 1_024;

/// Why bytes from the other side were not taken. After one the stream is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The stream does not begin with [`MAGIC`].
    #[error("the other side does not speak numaio's protocol")]
    Magic,
    /// The other side writes a version that is not known here.
    #[error("the other side speaks version {version} of the protocol and reads from {lowest} on; here are {LOWEST_VERSION} to {VERSION}")]
    Version {
        /// The oldest version that it reads.
        lowest: u16,
        /// The version that it writes.
        version: u16,
    },
    /// A frame is of no known kind.
    #[error("a frame is of the unknown kind {0}")]
    Kind(u8),
    /// Something is longer than its limit; it was not read.
    #[error("{what} of {length} is beyond the limit of {most}")]
    Long {
        /// What it is.
        what: &'static str,
        /// How long it claims to be.
        length: u64,
        /// How long it may be.
        most: u64,
    },
    /// A frame ends in the middle of something.
    #[error("a frame ends within {0}")]
    Short(&'static str),
    /// A frame goes on behind its last field.
    #[error("a frame has bytes behind its last field")]
    Trailing,
    /// A value has no meaning.
    #[error("{0} has no meaning")]
    Value(&'static str),
    /// There is a shorter or more regular way to say the same, and only that is allowed.
    #[error("{0} is not in its one allowed form")]
    NotCanonical(&'static str),
    /// The name of a file was refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An entry has a value that no file system has.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// An entry is none of what the user of a sink wants.
    #[error("the source sent what was not asked for: {0}")]
    NotAskedFor(Name),
    /// There are bytes behind the last frame.
    #[error("the stream goes on behind its end")]
    AfterEnd,
    /// The stream was closed before its last frame.
    #[error("the stream was cut before its end")]
    Cut,
}

/// The two sides of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the files are.
    Source,
    /// Where they go.
    Sink,
}

/// Tells one transfer from all others: 16 random bytes, or a hash of what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransferId(pub [u8; 16]);

/// The first thing that a side says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Which side speaks.
    pub side: Side,
    /// For which transfer.
    pub transfer: TransferId,
}

/// What follows the hello, in any order but for [`Frame::End`], which is the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Entries that a scan met.
    Batch(Batch),
    /// As many bytes as its parts have, or as they were packed to, follow this frame, outside of any frame.
    Chunk(Chunk),
    /// What of a file is not sent, as it reads as zeros.
    Holes(Holes),
    /// All parts of a file were sent.
    Done(Done),
    /// Something went wrong.
    Problem(Problem),
    /// Nothing more follows.
    End(End),
    /// What the sink needs of files that it was told of.
    Wants(Wants),
    /// What the hash of a file is: from the source, which was asked for it.
    Sum(Sum),
    /// What is at the sink in the end: from the sink, for a manifest.
    There(There),
    /// What was done at the sink: from the sink, for a user at the source who wants to hear of it.
    Did(Did),
}

/// Whose bytes follow, one part behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    hash: HashKind,
    parts: Vec<ChunkPart>,
    packed: Option<u64>,
}

/// A part of a file and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// The file.
    pub file: FileNumber,
    /// Which of its bytes.
    pub extent: Extent,
    /// The hash of these bytes.
    pub digest: Digest,
}

impl Chunk {
    /// # Errors
    /// [`WireError::Long`] for more than [`MAX_PARTS`] parts or [`MAX_CHUNK`] bytes, [`WireError::Value`] for none.
    pub fn new(hash: HashKind, parts: Vec<ChunkPart>) -> Result<Self, WireError> {
        if parts.is_empty() {
            return Err(WireError::Value("a chunk without parts"));
        }
        if parts.len() > MAX_PARTS {
            return Err(WireError::Long {
                what: "a chunk",
                length: parts.len() as u64,
                most: MAX_PARTS as u64,
            });
        }
        let chunk = Self { hash, parts, packed: None };
        match chunk.length() {
            length if length > MAX_CHUNK => Err(WireError::Long { what: "a chunk", length, most: MAX_CHUNK }),
            _ => Ok(chunk),
        }
    }

    /// The same chunk, whose bytes go packed, all together, and are so many then.
    ///
    /// # Errors
    /// [`WireError::Value`] unless there are fewer than before, and some.
    pub fn packed_to(self, bytes: u64) -> Result<Self, WireError> {
        match (1..self.length()).contains(&bytes) {
            true => Ok(Self { packed: Some(bytes), ..self }),
            false => Err(WireError::Value("the length of packed data")),
        }
    }

    /// How many bytes it was packed to, if it is packed.
    pub fn packed(&self) -> Option<u64> {
        self.packed
    }

    /// How many bytes follow the frame.
    pub fn follow(&self) -> u64 {
        self.packed.unwrap_or(self.length())
    }

    /// How the parts were hashed.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// The parts in the order of their bytes.
    pub fn parts(&self) -> &[ChunkPart] {
        &self.parts
    }

    /// Bytes of data of all parts, before packing.
    pub fn length(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.extent.length()))
    }
}

/// Holes of a file of which the sink was told as of data, as there were too many of them; said before any part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holes {
    file: FileNumber,
    extents: Vec<Extent>,
}

impl Holes {
    /// These holes of a file, in ascending order.
    ///
    /// # Errors
    /// [`WireError::Long`] for more than [`MAX_EXTENTS`], [`WireError::Value`] for none, or if they are not in order.
    pub fn new(file: FileNumber, extents: Vec<Extent>) -> Result<Self, WireError> {
        check_extents(&extents)?;
        Ok(Self { file, extents })
    }

    /// Whose they are.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// Where they are, in whole blocks.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

/// Whether there are some, in ascending order, not touching, and not too many to be said at once.
fn check_extents(extents: &[Extent]) -> Result<(), WireError> {
    let (length, most) = (extents.len() as u64, MAX_EXTENTS as u64);
    if length > most {
        return Err(WireError::Long { what: "the extents of a file", length, most });
    }
    if extents.is_empty() || !extents.windows(2).all(|pair| pair[0].end() < pair[1].start()) {
        return Err(WireError::Value("the extents of a file"));
    }
    Ok(())
}

/// All that was wanted of a file was sent, and the file was the same all the while. It is not said of a file that
/// went as one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The file.
    pub file: FileNumber,
    /// Bytes of it that were sent, or said to be holes.
    pub bytes: u64,
}

/// The hash of all that a file of the source holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The file.
    pub file: FileNumber,
    /// BLAKE3 with 256 bits.
    pub digest: Digest,
}

/// The hash of all that a file at the sink holds in the end: a line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct There {
    /// Its name at the sink.
    pub name: Name,
    /// BLAKE3 with 256 bits.
    pub digest: Digest,
}

/// Something was made, changed or removed at the sink; or it would be, in a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Did {
    /// Its name at the sink.
    pub name: Name,
    /// What was done.
    pub action: Action,
    /// Bytes of its data that were moved for it; none of what is not copied.
    pub bytes: u64,
}

/// What the sink needs, in any order; every regular file is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wants(Vec<Want>);

/// What the sink needs of some files whose numbers follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The first of them.
    pub first: FileNumber,
    /// How many, at least 1.
    pub count: u64,
    /// What of each.
    pub what: Needed,
}

/// What the sink needs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needed {
    /// Nothing: it has it, or cannot take it.
    Nothing,
    /// All its data.
    All,
    /// These bytes; at least one.
    Some(Vec<Extent>),
    /// The hash of all that it holds, and then another answer.
    Sum,
}

impl Wants {
    /// # Errors
    /// [`WireError::Long`] for more than [`MAX_WANTS`] answers or too many extents, [`WireError::Value`] for none, or if
    /// extents are not in ascending order.
    pub fn new(wants: Vec<Want>) -> Result<Self, WireError> {
        if wants.is_empty() {
            return Err(WireError::Value("no answers"));
        }
        if wants.len() > MAX_WANTS {
            return Err(WireError::Long {
                what: "answers",
                length: wants.len() as u64,
                most: MAX_WANTS as u64,
            });
        }
        for want in &wants {
            let last = want.first.get().checked_add(want.count);
            if want.count == 0 || last.and_then(|last| FileNumber::new(last - 1).ok()).is_none() {
                return Err(WireError::Value("a count of files"));
            }
            if let Needed::Some(extents) = &want.what {
                check_extents(extents)?;
            }
        }
        Ok(Self(wants))
    }

    /// The answers.
    pub fn into_inner(self) -> Vec<Want> {
        self.0
    }
}

/// Which file, which side, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is about.
    pub about: About,
    /// Where it happened.
    pub side: Side,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub text: Text,
}

/// What a problem is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The transfer, which ends.
    Transfer,
    /// One file, and its name for people; the others go on.
    File(FileNumber, Name),
    /// Something that got no number, because it could not be looked at.
    Name(Name),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Why something went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All reasons, by their codes.
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
    /// A reason that has no code of its own; the text tells it.
    Other = 1,
    /// It is not there, or not any more.
    NotFound = 2,
    /// It may not be read or written.
    Permission = 3,
    /// The file system is full.
    NoSpace = 4,
    /// The user's quota is used up.
    Quota = 5,
    /// The file system is mounted read-only.
    ReadOnly = 6,
    /// The other file system does not take so long a name.
    NameTooLong = 7,
    /// Symbolic links lead in a circle, or a link leads out of the root.
    Link = 8,
    /// Something else is in its place.
    Exists = 9,
    /// It changed while it was read.
    Changed = 10,
    /// The two sides have different hashes of it.
    Mismatch = 11,
    /// It has something that the other side's file system or this protocol cannot hold.
    Unsupported = 12,
    /// The device failed.
    Device = 13,
    /// The other side broke the protocol.
    Protocol = 14,
    /// A user or an administrator ended it.
    Cancelled = 15,
    /// Time was up.
    TimedOut = 16,
}

/// Words for people from the other side: one line, which a terminal can show without harm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(Box<str>);

impl Text {
    /// Words for the other side: what a terminal would obey is replaced, what is beyond [`MAX_TEXT`] is cut.
    pub fn new(words: &str) -> Self {
        let mut text = String::new();
        let harmless = words.chars().map(|char| if misleads(char) { '\u{fffd}' } else { char });
        for char in harmless {
            if text.len() + char.len_utf8() > MAX_TEXT {
                break;
            }
            text.push(char);
        }
        Self(text.into())
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_wire(bytes: &[u8]) -> Result<Self, WireError> {
        let text = std::str::from_utf8(bytes).map_err(|_| WireError::Value("a text that is not UTF-8"))?;
        if text.chars().any(misleads) {
            return Err(WireError::Value("a text with control characters"));
        }
        Ok(Self(text.into()))
    }
}

/// What one side did, told when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// Entries that it sent or finished.
    pub entries: u64,
    /// Entries of which it told a problem.
    pub failed: u64,
    /// Bytes of data that it sent or stored.
    pub bytes: u64,
    /// Bytes of data that were to be moved. This and what follows is known to a sink alone; a source says 0.
    pub size: u64,
    /// Bytes of data that were there from before.
    pub resumed: u64,
    /// Entries that were left as they are.
    pub unchanged: u64,
    /// Things that were removed.
    pub removed: u64,
}
