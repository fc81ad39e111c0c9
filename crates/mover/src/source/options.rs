//! The options of a source.

use super::read_order::ReadMode;
use super::storage::SourceStorage;
use super::stored_files::LocalDestination;
use crate::accounts::AccountLookup;
use crate::chunk::ChunkPolicy;
use crate::compression::CompressMode;
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::mode_changes::ModeChanges;
use crate::name::Name;
use crate::port::{DirectoryIdentity, FilePath};
use crate::shard::Shard;
use crate::wire::TransferId;

/// The start of a scan: see [`crate::filter::SourcePath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The root of the port.
    pub root: u32,
    /// The only entry below the root that is copied; `None` copies the contents of the root.
    pub only: Option<Name>,
    /// Whether the contents of a directory are included, if `recursive`.
    pub enter: bool,
    /// Whether its parent directories are sent first, without their contents.
    pub with_parents: bool,
}

impl Origin {
    /// Returns the path where the scan starts.
    pub(super) fn path(&self) -> FilePath {
        FilePath::new(self.root, self.only.as_ref().map_or(&b""[..], Name::as_bytes))
    }
}

/// The options of a source.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The starts of the scan.
    pub origins: Vec<Origin>,
    /// Whether to copy directories with their contents; otherwise they are skipped and reported.
    pub recursive: bool,
    /// Whether the origins are a list of names: directories among them are copied without contents.
    pub listed: bool,
    /// Whether mount points below an origin are copied as empty directories.
    pub one_file_system: bool,
    /// Whether such directories are announced to the sink, which then keeps their contents.
    pub announce_mount_points: bool,
    /// Whether to remove entries, except directories, that the sink has stored.
    pub remove_stored: bool,
    /// Where the destination is, if it is on this machine and entries are removed.
    pub local_destination: Option<LocalDestination>,
    /// Whether the port follows symbolic links, so that directories may contain themselves.
    pub follow_links: bool,
    /// Changes of the modes that are sent.
    pub mode_changes: ModeChanges,
    /// Whether to read extended attributes.
    pub xattrs: bool,
    /// Whether to copy device files.
    pub devices: bool,
    /// The part of the objects, except directories, that is copied; all if `None`.
    pub shard: Option<Shard>,
    /// Include and exclude rules.
    pub filter: Filter,
    /// Whether an origin without any entry is reported as a problem, because its file system may
    /// not be mounted and the sink would remove everything.
    pub rejects_empty: bool,
    /// A directory to skip: the destination, which would be copied into itself.
    pub skip_directory: Option<DirectoryIdentity>,
    /// The hash function.
    pub hash: HashKind,
    /// How to split files, into blocks of the size of both sides.
    pub policy: ChunkPolicy,
    /// Whether files that change while they are read are sent as they were read, and reported.
    pub active_files: bool,
    /// The devices that hold the roots, with the order and the limit of reads in flight of each.
    pub storage: SourceStorage,
    /// How threads share the files of each device.
    pub mode: ReadMode,
    /// Bandwidth limit in bytes per second, after compression.
    pub limit: Option<u64>,
    /// When to compress data. The sink must accept compressed data unless it is
    /// [`CompressMode::None`].
    pub compress: CompressMode,
    /// Whether to send data without waiting for requests, to a destination that is almost empty.
    pub eager: bool,
    /// Whether to send hard links; otherwise each name becomes a file of its own at the sink.
    pub links: bool,
    /// Whether the sink accepts ACLs with account names; otherwise they have numeric IDs only.
    pub acls: bool,
    /// Maps user and group names; `None` omits them.
    pub accounts: Option<AccountLookup>,
    /// The identity of the transfer.
    pub transfer: TransferId,
}
