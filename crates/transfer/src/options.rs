//! Options of a transfer, after parsing: what both sides receive, and what the local side keeps.

use crate::choice::Choice;
use crate::entry_options::EntryOptions;
use crate::file_list::FileList;
use crate::filters::FilterRule;
use numaio_mover::compression::CompressMode;
use numaio_mover::hash::HashKind;
use numaio_mover::port::BlockSize;
use numaio_mover::sink::SyncMode;
use numaio_mover::source::{ReadMode, ReadOrder};
use numaio_mover_linux::files::DirectIo;
use serde::{Deserialize, Serialize};

/// Options that both sides receive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyOptions {
    /// Names below the source to transfer; all if `None`.
    pub file_list: Option<FileList>,
    /// Copy directories with their contents.
    pub recursive: bool,
    /// Preserve modes, groups, extended attributes and ACLs; as root also users and devices.
    pub archive: bool,
    /// Attributes of [`CopyOptions::archive`] to leave out, and times.
    pub omitted: OmittedAttributes,
    /// Filter rules; the first match decides.
    pub rules: Vec<FilterRule>,
    /// Minimum and maximum size of the files to copy, in bytes.
    pub size_range: (u64, u64),
    /// Compare files of equal size by content hash.
    pub checksum: bool,
    /// Report the hash of every file at the destination.
    pub manifest: bool,
    /// Keep numeric owners.
    pub numeric_ids: bool,
    /// Skip files that are newer at the destination.
    pub update: bool,
    /// Transfer files even if size and time are equal.
    pub ignore_times: bool,
    /// Remove files that the source does not have.
    pub delete: bool,
    /// Limits of that.
    pub deletion: DeletionLimits,
    /// Copy files that change meanwhile as they were read.
    #[serde(with = "crate::choice")]
    pub active_files: ActiveFiles,
    /// When files are cloned within a machine.
    #[serde(with = "crate::choice")]
    pub reflink: Reflink,
    /// Write to existing files directly.
    pub in_place: bool,
    /// Change nothing.
    pub dry_run: bool,
    /// Whether the sink reports every change.
    pub reports_changes: bool,
    /// How data is verified.
    #[serde(with = "crate::choice")]
    pub hash: HashKind,
    /// When data is synced.
    #[serde(with = "crate::choice")]
    pub fsync: SyncMode,
    /// Maximum bytes of data per second.
    pub bytes_per_second: Option<u64>,
    /// Compression for another host.
    #[serde(with = "crate::choice")]
    pub compress: CompressMode,
    /// Placement of threads and buffers.
    #[serde(with = "crate::choice")]
    pub placement: Placement,
    /// Number of reading threads, and of writing threads.
    pub threads: Option<u32>,
    /// Direct I/O.
    #[serde(with = "crate::choice")]
    pub io: Io,
    /// Whether idle threads help the groups of other devices and nodes.
    pub work_sharing: bool,
    /// Which blocks go past the page cache.
    #[serde(with = "crate::choice")]
    pub direct: DirectIo,
    /// The order of reads; [`ReadOrder::PhysicalIfSlow`] on rotational disks only.
    #[serde(with = "crate::choice")]
    pub order: ReadOrder,
    /// How threads share the files.
    #[serde(with = "crate::choice")]
    pub mode: ReadMode,
    /// The block size that the user wants; sent as a capability.
    #[serde(skip)]
    pub block: Option<BlockSize>,
    /// Number of data connections to the sink.
    pub streams: u16,
    /// Whether the source may use fewer connections if that is better.
    pub may_use_fewer_streams: bool,
    /// Options that select entries, and change what is copied.
    #[serde(flatten)]
    pub entries: EntryOptions,
}

/// Attributes that are not preserved, although [`CopyOptions::archive`] may include them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OmittedAttributes {
    /// Modes.
    pub modes: bool,
    /// Owning users.
    pub users: bool,
    /// Owning groups.
    pub groups: bool,
    /// Times of all entries.
    pub times: bool,
    /// Times of directories.
    pub directory_times: bool,
    /// Hard links; each name becomes a file of its own.
    pub hard_links: bool,
}

/// When files are cloned, so that they share their data with the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reflink {
    /// Never.
    #[default]
    Never,
    /// Where the file system can.
    Auto,
    /// Always; a file that cannot be cloned fails.
    Always,
}

impl Choice for Reflink {
    const NAMED: &'static [(&'static str, Self)] =
        &[("never", Self::Never), ("auto", Self::Auto), ("always", Self::Always)];
}

/// How files are treated that change while they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActiveFiles {
    /// They fail.
    #[default]
    Fail,
    /// They are copied as they were read.
    Copy,
}

impl Choice for ActiveFiles {
    const NAMED: &'static [(&'static str, Self)] = &[("fail", Self::Fail), ("copy", Self::Copy)];
}

/// Limits of the removal of files that the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeletionLimits {
    /// Whether entries are removed in a pass of their own before any file is copied.
    pub before: bool,
    /// Whether this is that pass.
    pub only: bool,
    /// Maximum number of removed entries.
    pub max: Option<u64>,
    /// Remove entries even if the source could not be listed completely.
    pub ignore_errors: bool,
    /// Remove everything from a directory that is empty at the source.
    pub allow_empty_source: bool,
    /// Remove also what the filter rules exclude.
    pub excluded: bool,
}

/// How blocks are read and written past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// io_uring with many blocks in flight, if available.
    #[default]
    Auto,
    /// One block per thread.
    Threads,
}

impl Choice for Io {
    const NAMED: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("threads", Self::Threads)];
}

/// Placement of threads and buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The node of the storage.
    Local,
    /// The best node of the saved model.
    Model,
    /// The kernel decides.
    None,
}

impl Choice for Placement {
    const NAMED: &'static [(&'static str, Self)] =
        &[("local", Self::Local), ("model", Self::Model), ("none", Self::None)];
}
