//! Operations of a port and their outcomes.

use super::compression::{CompressFn, CompressionResult, Decompression};
use super::digest::{Digest, Hash};
use super::fault::Fault;
use super::file_path::FilePath;
use super::stat::{Details, FileInfo, Identity, Listing, Stamp};
use super::xattr::Xattr;
use std::fmt;
use std::ops::Range;

/// An operation that a mover submits to a port.
#[derive(Debug)]
pub enum Operation<B> {
    /// List up to `most` entries of a directory; results in [`Outcome::Listed`].
    List {
        /// The directory.
        directory: FilePath,
        /// Maximum number of entries.
        most: usize,
        /// Metadata to collect for each entry.
        details: Details,
    },
    /// Continue an incomplete listing; results in [`Outcome::Listed`].
    ListMore {
        /// Value of [`Listing::more`].
        listing: u64,
        /// Maximum number of entries.
        most: usize,
        /// Metadata to collect for each entry.
        details: Details,
    },
    /// Read the metadata of objects; results in [`Outcome::Stat`].
    Stat {
        /// The objects.
        at: Vec<FilePath>,
        /// Metadata to collect for each object.
        details: Details,
        /// Targets of symbolic links that would replace objects, by ascending index into `at`;
        /// see [`FileInfo::is_link_destination`].
        links: Vec<(usize, Box<[u8]>)>,
    },
    /// Read pieces of files into one buffer, in this order; results in [`Outcome::Read`].
    Read {
        /// The pieces, at most one block in total.
        pieces: Vec<ReadPiece>,
        /// Hash function for each piece.
        hash: Hash,
        /// Function that compresses all pieces together; `None` to keep them uncompressed.
        pack: Option<CompressFn>,
    },
    /// Hash the next bytes of a file; results in [`Outcome::HashedFile`].
    HashFile(ContentHash),
    /// Write files; results in [`Outcome::Results`].
    Write {
        /// The files and their parts.
        puts: Vec<FileWrite>,
        /// Buffer with the data.
        data: Option<B>,
        /// Hash function of [`FileWrite::check`].
        hash: Hash,
        /// Parameters if the data is compressed; nothing is written if decompression fails.
        packed: Option<Decompression>,
    },
    /// Create objects other than regular files, in this order; results in [`Outcome::Results`].
    Create(Vec<NewObject>),
    /// Set attributes of objects in this order, without following symbolic links; results in
    /// [`Outcome::Results`].
    SetAttributes(Vec<(FilePath, Attributes)>),
    /// Remove objects, directories recursively; results in [`Outcome::Results`].
    ///
    /// A missing object is not a fault.
    Remove(Vec<FilePath>),
    /// Remove objects of the source that are not directories; results in [`Outcome::Results`].
    RemoveSources(Vec<SourceRemoval>),
    /// Lock a transfer's journal against other transfers and read it; results in
    /// [`Outcome::OpenedJournal`]. If it does not exist, the journal of an interrupted transfer
    /// beside it gets its name.
    OpenJournal {
        /// The journal.
        journal: FilePath,
        /// Maximum number of bytes to read.
        most: usize,
    },
    /// Write to the journal; results in [`Outcome::Results`], see [`JournalWrite::after`].
    WriteJournal(JournalWrite),
    /// Make all data below a root durable; results in [`Outcome::Results`] with one result.
    Sync {
        /// Index of the root.
        root: u32,
    },
}

/// A piece of a file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPiece {
    /// The file.
    pub at: FilePath,
    /// Expected identity; a different one is [`super::FaultKind::Changed`].
    pub identity: Identity,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
    /// Whether the file is read even if its identity differs.
    pub as_it_is: bool,
}

/// An object to remove at the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRemoval {
    /// The object. A missing one is not a fault.
    pub at: FilePath,
    /// Expected identity; a different one is [`super::FaultKind::Changed`].
    pub identity: Identity,
    /// Its copy, if that is on the same machine; [`super::FaultKind::Exists`] if it is the same
    /// file.
    pub destination: Option<FilePath>,
}

/// State of hashing a complete file in steps.
#[derive(Debug)]
pub struct ContentHash {
    /// The file; anything but a regular file is [`super::FaultKind::Changed`].
    pub at: FilePath,
    /// Expected identity, if it matters; a different one is [`super::FaultKind::Changed`].
    pub identity: Option<Identity>,
    /// Number of bytes hashed so far.
    pub offset: u64,
    /// Maximum number of bytes to read in one step.
    pub most: u64,
    /// Hash of the bytes so far.
    pub running: Box<dyn RunningHash>,
    /// Whether the end of the file was reached.
    pub ended: bool,
}

/// An incremental hash.
pub trait RunningHash: fmt::Debug + Send {
    /// Adds bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Returns the hash of all bytes so far.
    fn digest(&self) -> Digest;
}

/// A write to one file, optionally followed by its completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// The file to write.
    pub at: FilePath,
    /// How to open the file.
    pub begin: OpenMode,
    /// Ranges in which a resumed file must contain data, in order; else
    /// [`super::FaultKind::Changed`].
    ///
    /// After a crash without sync, the file can contain less than was written.
    pub held: Vec<Range<u64>>,
    /// Ranges of the buffer and their expected hashes, verified before any write.
    pub check: Vec<(Range<usize>, Digest)>,
    /// The parts to write.
    pub parts: Vec<Part>,
    /// Whether pages of zeros become holes where the file system supports them.
    pub sparse: bool,
    /// How to complete the file; `None` if more writes follow.
    pub settle: Option<FileCompletion>,
}

impl FileWrite {
    /// Creates a write that opens a file without writing data.
    pub fn new(at: FilePath, begin: OpenMode) -> Self {
        Self {
            at,
            begin,
            held: Vec::new(),
            check: Vec::new(),
            parts: Vec::new(),
            sparse: false,
            settle: None,
        }
    }
}

/// A part of the buffer to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Range in the buffer.
    pub bytes: Range<usize>,
    /// Offset in the file.
    pub offset: u64,
}

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Replace any existing object with a new file that only its owner can read.
    Fresh,
    /// Resume a partial file: a regular file of this user with a single hard link.
    Continue,
    /// Open or create a regular file and truncate it.
    InPlace,
    /// Continue a file that was opened with [`OpenMode::InPlace`] and is not complete.
    ///
    /// Any other file is [`super::FaultKind::Changed`], also if the file was renamed.
    ContinueInPlace,
}

/// How a file is completed: its final size, attributes and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCompletion {
    /// Size in bytes.
    pub size: u64,
    /// Attributes to set.
    pub attributes: Attributes,
    /// Final name; atomically replaces any object except a directory.
    pub name: FilePath,
    /// Whether the content must be durable before the rename.
    pub sync: bool,
}

/// Attributes to set; `None` leaves the current value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// The lowest twelve bits of the mode.
    pub mode: Option<u32>,
    /// Whether to apply the directory's default ACL (acl(5)) or, without one, the umask to the
    /// mode, as for a newly created object.
    pub masked: bool,
    /// Modification time of the content.
    pub mtime: Option<Stamp>,
    /// Owning user.
    pub user: Option<u32>,
    /// Owning group; without root, failure to set it is not a fault.
    pub group: Option<u32>,
    /// Complete list of extended attributes; others that this user can set are removed.
    pub xattrs: Option<Vec<Xattr>>,
}

/// An object to create other than a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Its path.
    pub at: FilePath,
    /// Its type.
    pub object: Object,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The type of an object to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A directory with this mode and all permissions of its owner; no other attributes are set.
    ///
    /// An existing directory stays and becomes accessible to its owner; any other object is
    /// removed. The root gets the mode, since it was created for the transfer.
    Directory,
    /// A symbolic link with this target; like all following types it replaces anything but a
    /// directory.
    Symlink(Box<[u8]>),
    /// A hard link to a file below the same root; [`super::FaultKind::NotKept`] where the file
    /// system has none, or not between these directories, or not as many.
    HardLink(FilePath),
    /// A hard link to a file below any root or, where that is refused, a clone of it with the
    /// attributes of the operation.
    LinkOrClone(FilePath),
    /// A clone of a regular file of this identity, which shares its data (ioctl_ficlone(2)); a
    /// different one is [`super::FaultKind::Changed`].
    Clone(FilePath, Identity),
    /// Another name of an object that is about to be replaced: a hard link, or where that is
    /// refused the object itself. It replaces an older backup, and missing directories are
    /// created. If it fails, the next object is not created if it has the name of the old one.
    Backup(FilePath),
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice(u32, u32),
    /// A block device.
    BlockDevice(u32, u32),
}

/// Bytes to write to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalWrite {
    /// The journal; created and locked if necessary.
    pub journal: FilePath,
    /// Offset of the bytes; the journal is truncated after them.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Files whose data must be durable first, each as its partial and its final name.
    ///
    /// The outcome has a result for each file and a last result for the journal. If a file fails,
    /// the journal is not written.
    pub after: Vec<[FilePath; 2]>,
    /// Whether the bytes must be durable.
    pub sync: bool,
}

/// The result of opening a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedJournal {
    /// The finding.
    pub state: JournalState,
    /// Whether other transfers to the same root may be running.
    pub has_others: bool,
}

/// The state of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalState {
    /// Another transfer holds the lock until it ends.
    ///
    /// A non-regular file or a file of another user is [`super::FaultKind::Exists`] instead.
    Locked,
    /// The journal does not exist.
    Absent,
    /// The journal is locked by this transfer and has this content.
    Content(Vec<u8>),
}

/// The outcome of an operation; results are in the order of the request.
#[derive(Debug)]
pub enum Outcome<B> {
    /// Result of [`Operation::List`] and [`Operation::ListMore`].
    Listed(Result<Listing, Fault>),
    /// Result of [`Operation::Stat`]; `None` for a missing object.
    Stat(Vec<Result<Option<FileInfo>, Fault>>),
    /// Result of [`Operation::Read`]; the buffer holds the successfully read pieces without gaps.
    Read {
        /// Hash of each piece.
        results: Vec<Result<Digest, Fault>>,
        /// The data.
        data: B,
        /// Result of the compression, if requested.
        packed: Option<CompressionResult>,
    },
    /// Result of [`Operation::HashFile`]: the updated state.
    HashedFile(Result<ContentHash, Fault>),
    /// Success or failure of each item of all other operations.
    Results(Vec<Result<(), Fault>>),
    /// Result of [`Operation::OpenJournal`].
    OpenedJournal(Result<OpenedJournal, Fault>),
}
