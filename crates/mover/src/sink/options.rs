//! The options of a sink.

use super::existing_policy::ExistingPolicy;
use super::fixed_owner::FixedOwner;
use super::requested::RequestedEntries;
use crate::accounts::AccountLookup;
use crate::entry::Kind;
use crate::filter::Filter;
use crate::hash::HashKind;
use crate::name::Name;
use crate::port::{BlockSize, FileKind, FilePath, FileStat, KeptAttributes, NameMatching, Stamp};
use crate::wire::TransferId;
use std::ops::{Range, RangeInclusive};

/// The attributes to preserve from the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreserveOptions {
    /// Modes; otherwise new objects get the source's mode less default ACL or umask restrictions.
    pub modes: bool,
    /// Owning users.
    pub users: bool,
    /// Owning groups.
    pub groups: bool,
    /// Extended attributes, including ACLs.
    pub xattrs: bool,
    /// Modification times. Without these, files of equal size are compared by content hash.
    pub times: bool,
    /// Modification times of directories.
    pub directory_times: bool,
}

/// When data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Whenever the kernel writes it back. A system crash may damage recently copied files.
    None,
    /// Before each file gets its name, and everything at the end.
    File,
    /// Everything at the end.
    End,
}

/// The user that writes at the sink, which limits the attributes that can be set.
///
/// Without root, only groups of this user can be assigned to its files, and no extended attributes
/// reserved for root.
#[derive(Debug, Clone, Default)]
pub struct WriterIdentity {
    /// The user ID.
    pub user: u32,
    /// The IDs of the user's groups.
    pub groups: Vec<u32>,
    /// Whether it writes on behalf of others, as a daemon does: then set-ID bits are never set, and
    /// ignored in comparisons.
    pub for_others: bool,
}

impl Default for PreserveOptions {
    /// Returns times alone.
    fn default() -> Self {
        Self { modes: false, users: false, groups: false, xattrs: false, times: true, directory_times: true }
    }
}

impl PreserveOptions {
    /// Returns whether the time of an object is preserved.
    pub(super) fn time_of(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Directory => self.times && self.directory_times,
            _ => self.times,
        }
    }
}

/// Files of a source within this machine, to be cloned instead of received.
#[derive(Debug, Clone)]
pub struct CloneSources {
    /// The roots that contain them, by the names that they have here.
    pub roots: Range<u32>,
    /// The name there of the only file, if it has another name here.
    pub only: Option<Name>,
    /// Whether a file that cannot be cloned fails.
    pub must_clone: bool,
}

impl CloneSources {
    /// Returns the possible paths of a file.
    fn paths<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = FilePath> + 'a {
        let name = self.only.as_ref().unwrap_or(name);
        self.roots.clone().map(|root| FilePath::new(root, name.as_bytes()))
    }
}

/// Limits of the removal of entries that the source does not have.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemovalLimits {
    /// Maximum number of entries to remove.
    pub max: Option<u64>,
    /// Whether entries are only removed, and nothing is copied.
    pub only: bool,
    /// Whether entries are removed even if the source failed to list others.
    pub ignore_errors: bool,
    /// Whether entries that the filter excludes are removed, too.
    pub excluded: bool,
}

/// Source directories on the machine of the sink, as (device, inode) pairs. They are never removed.
#[derive(Debug, Clone, Default)]
pub struct ProtectedPaths {
    /// The source directories.
    pub sources: Vec<(u64, u64)>,
    /// Their ancestors.
    pub ancestors: Vec<(u64, u64)>,
    /// Whether a source directory is inside the destination.
    pub inside_destination: bool,
}

impl ProtectedPaths {
    /// Returns whether an object is a source directory.
    pub(super) fn is_source(&self, metadata: &FileStat) -> bool {
        metadata.kind == FileKind::Directory && self.sources.contains(&(metadata.volume, metadata.inode))
    }

    /// Returns whether an object is a directory and not a source directory or an ancestor of one.
    pub(super) fn is_removable_directory(&self, metadata: &FileStat) -> bool {
        metadata.kind == FileKind::Directory && !self.contains_source(metadata)
    }

    /// Returns whether an object is a source directory or an ancestor of one.
    pub(super) fn contains_source(&self, metadata: &FileStat) -> bool {
        let is_above = metadata.kind == FileKind::Directory
            && self.ancestors.contains(&(metadata.volume, metadata.inode));
        is_above || self.is_source(metadata)
    }
}

/// Where replaced objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupNames {
    /// The root of the port: that of the destination, or of a directory for backups.
    pub root: u32,
    /// Added to each name; not empty for the root of the destination.
    pub suffix: Vec<u8>,
}

/// A shard that ended without completing its files: its journal is not locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedShard {
    /// The name of its journal.
    pub journal: Box<[u8]>,
    /// The identity in its journal, which names its partial files; `None` if it is damaged.
    pub transfer: Option<TransferId>,
}

/// The options of a sink.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// The attributes to preserve.
    pub preserve: PreserveOptions,
    /// The attributes that the destination keeps. Others are neither set nor compared, and reported
    /// once. Without times, files of equal size are compared by content hash.
    pub kept: KeptAttributes,
    /// The writing user.
    pub writer: WriterIdentity,
    /// Whether device files may be created.
    pub devices: bool,
    /// Which entries are skipped because of existing objects.
    pub existing: ExistingPolicy,
    /// Skip files that are newer at the sink.
    pub update: bool,
    /// Transfer files even if size and mtime are equal.
    pub ignore_times: bool,
    /// Compare files of equal size by content hash, not by mtime.
    pub checksum: bool,
    /// Report the final hash of every regular file of the source.
    pub manifest: bool,
    /// Maps user and group names; `None` keeps numeric IDs.
    pub accounts: Option<AccountLookup>,
    /// Owners that all entries get. They must be among the attributes to preserve.
    pub owner: FixedOwner,
    /// Range of sizes of the regular files to copy, in bytes; others are left unchanged.
    pub sizes: RangeInclusive<u64>,
    /// Remove entries that the source does not have.
    pub delete: bool,
    /// Limits of that.
    pub removal_limits: RemovalLimits,
    /// The source does not send the contents of mount points, which are then not removed.
    pub one_file_system: bool,
    /// Entries that this filter excludes are only removed if the limits of removal permit it.
    pub filter: Filter,
    /// The entries that the user requested; any other entry aborts the transfer. `None` accepts
    /// all.
    pub requested: Option<RequestedEntries>,
    /// Report stored entries to the source, which removes them.
    pub confirm_stored: bool,
    /// Change nothing, and report what would be changed.
    pub dry_run: bool,
    /// Where replaced objects are kept; not with `in_place` or `delete`.
    pub backup: Option<BackupNames>,
    /// The files of the source, if they are cloned where the file system can share their data.
    pub clones: Option<CloneSources>,
    /// Number of earlier snapshots, whose roots follow the destination's: unchanged files become
    /// hard links to them.
    pub snapshots: u32,
    /// Describe which attributes each change concerns.
    pub itemize: bool,
    /// Send all changes to the source, where the user is.
    pub report_changes: bool,
    /// Partial files of other transfers that were modified since then are not removed.
    pub keep_partials_since: Stamp,
    /// Which names are equivalent at the destination.
    pub names: NameMatching,
    /// Directories that are not removed.
    pub protected: ProtectedPaths,
    /// Whether the destination directory was created for this transfer.
    pub destination_created: bool,
    /// The name at the destination of the only entry of the source.
    pub alias: Option<Name>,
    /// Write to existing files directly, instead of to partial files beside them.
    pub in_place: bool,
    /// Write the data of each file in order, to a file that stays open: the file system accepts
    /// data at the end of an open file only. The source must send it in order.
    pub in_order: bool,
    /// When data is made durable.
    pub sync: SyncMode,
    /// The block size of both sides.
    pub block: BlockSize,
    /// The hash function of the source.
    pub hash: HashKind,
    /// Whether compressed data is accepted.
    pub accept_compressed: bool,
    /// Whether ACLs with user and group names are accepted.
    pub acls: bool,
    /// Whether the source sends data without waiting for requests. Then nothing is resumed or
    /// compared by hash.
    pub eager: bool,
    /// Whether there is a journal, so that a later run resumes interrupted files.
    pub resumes: bool,
    /// The name of the journal; see [`journal_name`](super::journal_name).
    pub journal: Box<[u8]>,
    /// Whether other processes write to the same directories, because the source has a shard only:
    /// existing directories stay accessible to their owner.
    pub is_shard: bool,
    /// Shards of the same tree whose partial files and journals are removed.
    pub abandoned_shards: Vec<AbandonedShard>,
    /// Whether an earlier attempt of the same command lost its connection and may still hold the
    /// journal.
    pub is_retry: bool,
    /// The identity of the transfer. Its first eight bytes identify the boot of the machine, during
    /// which unsynced data is trusted; [`SERIES`](super::SERIES) identifies all attempts of one
    /// command.
    pub transfer: TransferId,
}

impl SinkOptions {
    /// Returns the paths at which unchanged files with a name may be: those of snapshots, then
    /// those of the source.
    pub(super) fn paths_of_unchanged<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = FilePath> + 'a {
        let snapshots = (1..=self.snapshots).map(|root| FilePath::new(root, name.as_bytes()));
        snapshots.chain(self.clones.iter().flat_map(|clones| clones.paths(name)))
    }

    /// Returns the number of these paths.
    pub(super) fn unchanged_path_count(&self) -> usize {
        self.snapshots as usize + self.clones.as_ref().map_or(0, |clones| clones.roots.len())
    }

    /// Returns whether a directory that blocks another object may be removed.
    pub(super) fn may_remove_blockers(&self) -> bool {
        self.delete && !self.keeps_excluded() && !self.protected.inside_destination
    }

    /// Returns whether the filter keeps entries from being removed.
    pub(super) fn keeps_excluded(&self) -> bool {
        !self.filter.is_empty() && !self.removal_limits.excluded
    }

    /// Returns whether this is the destination directory and was created for this transfer.
    pub(super) fn is_created_destination(&self, name: &Name) -> bool {
        self.destination_created && *name == Name::root()
    }
}
