//! The seam for moving files: the operations that a mover needs from a file system and a link.
//!
//! A mover submits operations and later receives their outcomes; it never blocks inside an
//! operation. A [`FilePath`] names a file below a root that the port opened, never a path of the
//! machine. No operation follows a symbolic link or leaves its root. Operations are large (a bundle
//! of small files, a block of a large file), which makes the cost of submission negligible. They
//! hold no state between them, so no open file can leak. Only a port that writes in order keeps
//! files open, because their file system ends a file when it is closed.
//!
//! Pending operations may run concurrently and in any order. A mover submits dependent operations
//! one after the other.

mod block_size;
mod compression;
mod digest;
mod fault;
mod file_path;
mod operation;
mod stat;
mod xattr;

pub use block_size::{BlockSize, BlockSizeError, BLOCK};
pub use compression::{CompressFn, CompressionResult, DecompressFn, Decompression};
pub use digest::{Digest, Hash};
pub use fault::{Fault, FaultKind};
pub use file_path::FilePath;
pub use operation::{
    Attributes, ContentHash, FileCompletion, FileWrite, JournalState, JournalWrite, NewObject, Object,
    OpenMode, OpenedJournal, Operation, Outcome, Part, ReadPiece, RunningHash, SourceRemoval,
};
pub use stat::{
    Details, DirectoryIdentity, FileInfo, FileKind, FileStat, Identity, KeptAttributes, ListedEntry, Listing,
    NameMatching, Stamp,
};

pub use xattr::{is_root_only_xattr, is_security_label, Xattr};

use std::time::Duration;

/// Identifies an operation; the submitter chooses it.
pub type Ticket = u64;

/// Maximum size of the frames in one packet, in bytes.
pub const MAX_FRAME_BYTES: usize = 4 << 20;

/// One message on a link: protocol frames, and the data that belongs to the last frame.
#[derive(Debug)]
pub struct Packet<B> {
    /// Frames, at most [`MAX_FRAME_BYTES`] bytes.
    pub frames: Vec<u8>,
    /// A buffer, and the number of bytes of it that are data.
    pub data: Option<(B, usize)>,
}

/// An event that a port reports to its mover.
#[derive(Debug)]
pub enum Event<B> {
    /// An operation completed.
    Done(Ticket, Outcome<B>),
    /// A packet arrived from the peer; packets arrive in the order of sending.
    Received(Packet<B>),
    /// The link transmitted this many data bytes of a sent packet. A port without a transmit queue,
    /// such as a link within one process, does not report it.
    Sent(usize),
    /// The link to the peer closed, with the reason.
    Closed(String),
}

/// A file system and a link to a peer.
///
/// Packets arrive in order and complete, or not at all. A port without a free buffer receives no
/// packet with data until a buffer is returned; this is the only flow control. A mover must
/// therefore return buffers without waiting for the peer. Only a sink's port may also stop
/// receiving while its transmit queue is long, because a source never stops reading replies.
pub trait Port {
    /// A buffer of one block; dropping it returns it to its pool.
    type Buffer: AsRef<[u8]>;

    /// Starts an operation.
    fn submit(&mut self, ticket: Ticket, operation: Operation<Self::Buffer>);

    /// Sends a packet; does nothing after the link closed.
    fn send(&mut self, packet: Packet<Self::Buffer>);

    /// Waits up to `most` for at least one event, and appends all pending events.
    fn wait(&mut self, most: Duration, events: &mut Vec<Event<Self::Buffer>>);
}
