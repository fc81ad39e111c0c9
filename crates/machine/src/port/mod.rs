//! The seam for moving files: what a mover needs of a file system and of a link to the other side.
//!
//! A mover submits operations and later learns how each ended; it never waits within one. Files are named by
//! [`FilePath`]s below roots that the port opened, never by paths of the machine, and no operation follows a
//! symbolic link or leaves its root. Operations are large (a bundle of small files, a block of a large one), so
//! that what submitting costs does not matter, and hold no state between them: no open file is ever lost.
//!
//! Operations that were submitted and did not end yet may run at the same time and in any order. Those that rely on
//! each other are submitted one after the other's end.

mod compression;
mod operation;
mod stat;

pub use compression::{CompressFn, CompressionResult, DecompressFn, Decompression};
pub use operation::{
    is_root_only_xattr, Attributes, ContentHash, FileCompletion, FileWrite, JournalWrite, NewObject, Object,
    OpenMode, OpenedJournal, Operation, Outcome, Part, ReadPiece, RunningHash, Xattr,
    UNFINISHED_DIRECTORY_MODE,
};
pub use stat::{Details, FileInfo, FileKind, FileStat, Identity, ListedEntry, Listing, NameMatching, Stamp};

use std::fmt;
use std::time::Duration;

/// Tells operations apart; chosen by who submits them.
pub type Ticket = u64;

/// Most bytes of data of one operation and of one packet: a block. Buffers of a port have this length.
pub const BLOCK: usize = 1 << 20;

/// Most bytes of frames in one packet.
pub const MAX_FRAME_BYTES: usize = 4 << 20;

/// A file below one of the roots of a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath {
    /// Which root.
    pub root: u32,
    /// Components separated by single slashes, none of them `.` or `..`; no bytes for the root itself.
    pub name: Box<[u8]>,
}

impl FilePath {
    /// A file below a root.
    pub fn new(root: u32, name: impl Into<Box<[u8]>>) -> Self {
        Self { root, name: name.into() }
    }
}

/// The hash of a block. Shorter hashes are followed by zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub [u8; 32]);

/// How blocks are hashed; run by the port, beside the data while it is in the cache.
pub type Hash = fn(&[u8]) -> Digest;

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// For programs.
    pub why: FaultKind,
    /// For people: what was tried and what the kernel said.
    pub text: String,
}

impl Fault {
    /// A fault in words.
    pub fn new(why: FaultKind, text: impl fmt::Display) -> Self {
        Self { why, text: text.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// One that has no kind of its own.
    Other,
    /// It is not there, or not any more.
    NotFound,
    /// It may not be read or written.
    Permission,
    /// The file system is full.
    NoSpace,
    /// The user's quota is used up.
    Quota,
    /// The file system is mounted read-only.
    ReadOnly,
    /// A name is too long for this file system.
    NameTooLong,
    /// A symbolic link is on the way, or the way leads out of the root.
    Link,
    /// Something else is in its place.
    Exists,
    /// It is not what it was before, or changed while it was read.
    Changed,
    /// Data does not have the hash that it should have.
    Mismatch,
    /// This file system does not have such a thing.
    Unsupported,
    /// The device failed.
    Device,
    /// It was not begun, as the transfer is to end: nothing is wrong with the file.
    Cancelled,
}

/// What goes over a link at once: frames of the mover's protocol, and the data that belongs to the last of them.
#[derive(Debug)]
pub struct Packet<B> {
    /// Frames, [`MAX_FRAME_BYTES`] bytes at most.
    pub frames: Vec<u8>,
    /// Data: the first so many bytes of a buffer.
    pub data: Option<(B, usize)>,
}

/// What a port tells.
#[derive(Debug)]
pub enum Event<B> {
    /// An operation ended.
    Done(Ticket, Outcome<B>),
    /// A packet came from the other side, in the order in which that sent them.
    Received(Packet<B>),
    /// So many bytes of data of a packet that was sent are on their way. Not told where nothing is on its way, as within
    /// a process.
    Sent(usize),
    /// The link to the other side is gone; words why.
    Closed(String),
}

/// Files and a link.
///
/// Packets arrive in order and whole, or not at all. A port that has no buffer left takes no packet with data from
/// its link until one is given back: that is the whole of flow control, and so a mover must give buffers back
/// without waiting for what the other side will say. Only the port of a sink may also take nothing while much of what
/// was sent waits to go out, as a source never stops reading answers.
pub trait Port {
    /// A buffer of [`BLOCK`] bytes; it goes back to where it came from when it is dropped.
    type Buffer: AsRef<[u8]>;

    /// Begins an operation.
    fn submit(&mut self, ticket: Ticket, operation: Operation<Self::Buffer>);

    /// Sends a packet. After the link was closed it does nothing.
    fn send(&mut self, packet: Packet<Self::Buffer>);

    /// Waits until something happened, but no longer than `most`, and appends all that did.
    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Self::Buffer>>);
}
