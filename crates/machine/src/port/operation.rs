//! What a port is asked to do, and how it ended.

use super::{
    CompressFn, CompressionResult, Decompression, Details, Digest, Fault, FileInfo, FilePath, Hash, Identity,
    Listing, Stamp,
};
use std::fmt;
use std::ops::Range;

/// An extended attribute: name and value.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

/// Whether an extended attribute is kept by root alone (xattr(7)): what programs need to run as they did.
pub fn is_root_only_xattr(name: &[u8]) -> bool {
    // XFS shows ACLs under other names, too (fs/xfs/xfs_acl.h).
    let shown_twice = name.starts_with(b"trusted.SGI_ACL_");
    name == b"security.capability" || name.starts_with(b"trusted.") && !shown_twice
}

/// What a port is asked to do.
#[derive(Debug)]
pub enum Operation<B> {
    /// List a directory, `most` names at first. Gives [`Outcome::Listed`].
    List {
        /// The directory.
        directory: FilePath,
        /// Most names.
        most: usize,
        /// What to find out of each.
        details: Details,
    },
    /// Go on with a listing that said there is more. Gives [`Outcome::Listed`].
    ListMore {
        /// [`Listing::more`].
        listing: u64,
        /// Most names.
        most: usize,
        /// What to find out of each.
        details: Details,
    },
    /// Look at objects. Gives [`Outcome::Stat`].
    Stat {
        /// The objects.
        at: Vec<FilePath>,
        /// What to find out of each.
        details: Details,
        /// Targets of symbolic links that are to take the places of some, by their indices, which ascend: see [`FileInfo::is_link_destination`].
        links: Vec<(usize, Box<[u8]>)>,
    },
    /// Read pieces of files into one buffer, in this order. Gives [`Outcome::Read`].
    Read {
        /// The pieces, [`super::BLOCK`] bytes in all at most.
        pieces: Vec<ReadPiece>,
        /// How to hash each.
        hash: Hash,
        /// How to pack what was read, all together, if it is to be packed.
        pack: Option<CompressFn>,
    },
    /// Read a file on into the hash of its whole content. Gives [`Outcome::HashedFile`].
    HashFile(ContentHash),
    /// Write. Gives [`Outcome::Results`].
    Write {
        /// Files.
        puts: Vec<FileWrite>,
        /// Where their data is.
        data: Option<B>,
        /// How the parts were hashed.
        hash: Hash,
        /// What the data is to become first, if it is packed. If it does not, nothing is written.
        packed: Option<Decompression>,
    },
    /// Make what is no file, in this order. Gives [`Outcome::Results`].
    Create(Vec<NewObject>),
    /// Set attributes of what is there, in this order; symbolic links are not followed. Gives [`Outcome::Results`].
    SetAttributes(Vec<(FilePath, Attributes)>),
    /// Remove, directories with all they hold. What is not there is no fault. Gives [`Outcome::Results`].
    Remove(Vec<FilePath>),
    /// Lock the journal of a transfer against others, and read it. Gives [`Outcome::OpenedJournal`].
    OpenJournal {
        /// The journal.
        journal: FilePath,
        /// Most bytes to read.
        most: usize,
    },
    /// Write to the journal. Gives [`Outcome::Results`] with one result.
    WriteJournal(JournalWrite),
    /// Make all that was written below a root durable. Gives [`Outcome::Results`] with one result.
    Sync {
        /// Which root.
        root: u32,
    },
}

/// A piece of a file that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPiece {
    /// The file.
    pub at: FilePath,
    /// What it was when it was found; else [`super::FaultKind::Changed`].
    pub identity: Identity,
    /// Offset of the first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
}

/// A hash of all that a file holds, taken some bytes at a time.
#[derive(Debug)]
pub struct ContentHash {
    /// The file; a regular one, else [`super::FaultKind::Changed`].
    pub at: FilePath,
    /// What it was when it was found, if that counts; else [`super::FaultKind::Changed`].
    pub identity: Option<Identity>,
    /// Bytes that are in the hash.
    pub offset: u64,
    /// Most bytes to read at a time.
    pub most: u64,
    /// The hash so far.
    pub running: Box<dyn RunningHash>,
    /// Whether the end of the file was reached.
    pub ended: bool,
}

/// A hash that takes its bytes little by little.
pub trait RunningHash: fmt::Debug + Send {
    /// Takes more bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The hash of all bytes so far.
    fn digest(&self) -> Digest;
}

/// Something to do with one file: write parts of it, then perhaps settle it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// The file that is written to.
    pub at: FilePath,
    /// What may be there.
    pub begin: OpenMode,
    /// Where a file that is gone on with has data, in order; else [`super::FaultKind::Changed`]. A file system that was lost without
    /// what it had in memory has less of it than was written.
    pub held: Vec<Range<u64>>,
    /// Parts of the buffer and the hashes that they must have; checked before anything is written.
    pub check: Vec<(Range<usize>, Digest)>,
    /// What is written.
    pub parts: Vec<Part>,
    /// Whether pages of zeros among that become holes, where a file can have some.
    pub sparse: bool,
    /// Whether it is complete with this.
    pub settle: Option<FileCompletion>,
}

impl FileWrite {
    /// Begins a file, and writes nothing to it yet.
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

/// Bytes to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where they are in the buffer.
    pub bytes: Range<usize>,
    /// Where they go in the file.
    pub offset: u64,
}

/// What may be there when a file is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Nothing; whatever is there is removed, and a new file made that only its owner can read.
    Fresh,
    /// The file that was begun before. Nothing but a regular file of this user with one name is written to.
    Continue,
    /// Any regular file, which is emptied, or none.
    InPlace,
    /// The regular file that was begun by [`OpenMode::InPlace`], and is not settled yet; else [`super::FaultKind::Changed`], as if it has
    /// another name by now.
    ContinueInPlace,
}

/// How a file is completed: cut to its size, given its attributes and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCompletion {
    /// Its size in bytes.
    pub size: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its name; whatever has it is replaced at once, unless it is a directory.
    pub name: FilePath,
    /// Whether the content must be durable before it gets its name.
    pub sync: bool,
}

/// Attributes to set; what is none stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// The lowest twelve bits of the mode.
    pub mode: Option<u32>,
    /// Whether the mode is that of something new, of which it gets what others leave: the default ACL of its directory if that
    /// has one (acl(5)), and else the umask.
    pub masked: bool,
    /// When the content was last changed.
    pub mtime: Option<Stamp>,
    /// The user.
    pub user: Option<u32>,
    /// The group. Somebody who is not root may fail to set it, which is no fault then.
    pub group: Option<u32>,
    /// All extended attributes that it shall have of those that this user can set; others are removed.
    pub xattrs: Option<Vec<Xattr>>,
}

/// Something to make that is no regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// Where.
    pub at: FilePath,
    /// What.
    pub object: Object,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The mode of a directory that was made: its owner's alone, and sticky, as nobody has them otherwise. So one that was never adorned is
/// known from one that is to be as it is.
pub const UNFINISHED_DIRECTORY_MODE: u32 = 0o1700;

/// What is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A directory with the mode [`UNFINISHED_DIRECTORY_MODE`], until it is adorned. One that is there stays, and its owner can enter it and
    /// write to it; anything else in its place is removed.
    Directory,
    /// A symbolic link with this target. Like the others below it replaces anything but a directory.
    Symlink(Box<[u8]>),
    /// A further name of a file below the same root.
    HardLink(FilePath),
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice(u32, u32),
    /// A block device.
    BlockDevice(u32, u32),
}

/// Bytes for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalWrite {
    /// The journal, which is made and locked if it is not yet.
    pub journal: FilePath,
    /// Where they go; the journal ends behind them.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Files whose data must be durable before the bytes are written: where each is written to, and what it is called once it
    /// is whole, which it may have become by now. There is a result for each of them, and one for the journal, which is left as
    /// it is if any of them fails.
    pub after: Vec<[FilePath; 2]>,
    /// Whether the bytes must be durable.
    pub sync: bool,
}

/// The journal that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedJournal {
    /// Another transfer has it, and lets go of it when it ends. One that is no file, or of another user, is a [`FaultKind::Exists`] instead.
    Locked,
    /// There is none.
    Absent,
    /// It is ours, and holds these bytes.
    Content(Vec<u8>),
}

/// How an operation ended. Results stand in the order of what was asked.
#[derive(Debug)]
pub enum Outcome<B> {
    /// Of [`Operation::List`] and [`Operation::ListMore`].
    Listed(Result<Listing, Fault>),
    /// Of [`Operation::Stat`]: none where nothing is.
    Stat(Vec<Result<Option<FileInfo>, Fault>>),
    /// Of [`Operation::Read`]: the hash of each piece. The pieces that were read stand in the buffer one behind the
    /// other; those that were not take no room.
    Read {
        /// Hashes of pieces.
        results: Vec<Result<Digest, Fault>>,
        /// What was read.
        data: B,
        /// What came of packing it, if that was asked for.
        packed: Option<CompressionResult>,
    },
    /// Of [`Operation::HashFile`]: how far it is.
    HashedFile(Result<ContentHash, Fault>),
    /// Of all that gives nothing but success.
    Results(Vec<Result<(), Fault>>),
    /// Of [`Operation::OpenJournal`].
    OpenedJournal(Result<OpenedJournal, Fault>),
}
