//! Options of a transfer, after parsing: what both sides receive, and what the local side keeps.

use crate::entry_options::EntryOptions;
use crate::file_list::FileList;
use crate::filters::FilterRule;
use numaio_mover::compression::CompressMode;
use numaio_mover::hash::HashKind;
use numaio_mover::port::BlockSize;
use numaio_mover::source::{ReadMode, ReadOrder};
use numaio_mover_linux::files::DirectIo;
use serde::{Deserialize, Serialize};

/// Values that an option names.
pub trait Choice: Copy + PartialEq + 'static {
    /// All values with their names.
    const ALL: &'static [(&'static str, Self)];
}

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
    pub active_files: ActiveFiles,
    /// When files are cloned within a machine.
    pub reflink: Reflink,
    /// Write to existing files directly.
    pub in_place: bool,
    /// Change nothing.
    pub dry_run: bool,
    /// Whether the sink reports every change.
    pub reports_changes: bool,
    /// How data is verified.
    pub hash: Hash,
    /// When data is synced.
    pub fsync: Fsync,
    /// Maximum bytes of data per second.
    pub bytes_per_second: Option<u64>,
    /// Compression for another host.
    pub compress: Compress,
    /// Placement of threads and buffers.
    pub placement: Placement,
    /// Number of reading threads, and of writing threads.
    pub threads: Option<u32>,
    /// Direct I/O.
    pub io: Io,
    /// Whether idle threads help the groups of other devices and nodes.
    pub work_sharing: bool,
    /// Which blocks go past the page cache.
    pub direct: Direct,
    /// The order of reads.
    pub order: Order,
    /// How threads share the files.
    pub mode: Mode,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    const ALL: &'static [(&'static str, Self)] =
        &[("never", Self::Never), ("auto", Self::Auto), ("always", Self::Always)];
}

/// How files are treated that change while they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ActiveFiles {
    /// They fail.
    #[default]
    Fail,
    /// They are copied as they were read.
    Copy,
}

impl Choice for ActiveFiles {
    const ALL: &'static [(&'static str, Self)] = &[("fail", Self::Fail), ("copy", Self::Copy)];
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Io {
    /// io_uring with many blocks in flight, if available.
    #[default]
    Auto,
    /// One block per thread.
    Threads,
}

impl Choice for Io {
    const ALL: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("threads", Self::Threads)];
}

/// Which blocks are read and written past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Direct {
    /// Those of large files, unless they are cached or the storage does not keep up.
    #[default]
    Auto,
    /// All that the file system can move directly.
    On,
    /// None.
    Off,
}

impl Choice for Direct {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Direct {
    /// Returns the setting for the directories of a side.
    pub fn kind(self) -> DirectIo {
        match self {
            Self::Auto => DirectIo::Auto,
            Self::On => DirectIo::On,
            Self::Off => DirectIo::Off,
        }
    }
}

/// The order in which the source reads requested files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Order {
    /// By inode number, on rotational disks by position.
    #[default]
    Auto,
    /// By inode number.
    Inode,
    /// By position on the disk.
    Physical,
    /// As listed.
    None,
}

impl Choice for Order {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("inode", Self::Inode), ("physical", Self::Physical), ("none", Self::None)];
}

impl Order {
    /// Returns the setting for a storage device of a source.
    pub fn kind(self, is_rotational: bool) -> ReadOrder {
        match self {
            Self::Auto if is_rotational => ReadOrder::PhysicalIfSlow,
            Self::Auto | Self::Inode => ReadOrder::Inode,
            Self::Physical => ReadOrder::Physical,
            Self::None => ReadOrder::Listed,
        }
    }
}

/// How threads share the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Large files are striped, and the next ones are read beside them.
    #[default]
    Auto,
    /// All threads read one file at a time.
    Stripe,
    /// Each thread reads another file.
    Pipeline,
}

impl Choice for Mode {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("stripe", Self::Stripe), ("pipeline", Self::Pipeline)];
}

impl Mode {
    /// Returns the setting for a source.
    pub fn kind(self) -> ReadMode {
        match self {
            Self::Auto => ReadMode::Auto,
            Self::Stripe => ReadMode::Stripe,
            Self::Pipeline => ReadMode::Pipeline,
        }
    }
}

/// How data is verified. Its number is sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Hash {
    /// XXH3.
    Xxh3,
    /// BLAKE3.
    Blake3,
    /// Not at all.
    None,
}

impl Choice for Hash {
    const ALL: &'static [(&'static str, Self)] =
        &[("xxh3", Self::Xxh3), ("blake3", Self::Blake3), ("none", Self::None)];
}

impl Hash {
    /// Returns the hash function's kind.
    pub fn kind(self) -> HashKind {
        match self {
            Self::Xxh3 => HashKind::Xxh3,
            Self::Blake3 => HashKind::Blake3,
            Self::None => HashKind::None,
        }
    }
}

/// When data is synced. Its number is sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Fsync {
    /// Whenever the kernel writes it back.
    None,
    /// Before a file is renamed.
    File,
    /// After the transfer.
    End,
}

impl Choice for Fsync {
    const ALL: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("file", Self::File), ("end", Self::End)];
}

/// Numbers the values of choices in the order of [`Choice::ALL`], and refuses other numbers: they
/// come from a hostile peer.
macro_rules! numbered {
    ($($name:ident: $what:literal),*) => {$(
        impl TryFrom<u8> for $name {
            type Error = String;

            fn try_from(number: u8) -> Result<Self, String> {
                let value = Self::ALL.get(usize::from(number)).map(|(_, value)| *value);
                value.ok_or_else(|| format!("{} {number} is unknown", $what))
            }
        }

        impl From<$name> for u8 {
            fn from(value: $name) -> Self {
                value as Self
            }
        }
    )*};
}

numbered!(Hash: "the hash function", Fsync: "the time to sync");

/// Whether data is compressed for another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Compress {
    /// Never.
    #[default]
    None,
    /// If that is measured to be faster.
    Auto,
    /// If it makes data smaller.
    Zstd,
}

impl Choice for Compress {
    const ALL: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("auto", Self::Auto), ("zstd", Self::Zstd)];
}

impl Compress {
    /// Returns the setting for the source.
    pub fn kind(self) -> CompressMode {
        match self {
            Self::None => CompressMode::None,
            Self::Auto => CompressMode::Auto,
            Self::Zstd => CompressMode::Zstd,
        }
    }
}

/// Placement of threads and buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// The node of the storage.
    Local,
    /// The best node of the saved model.
    Model,
    /// The kernel decides.
    None,
}

impl Choice for Placement {
    const ALL: &'static [(&'static str, Self)] =
        &[("local", Self::Local), ("model", Self::Model), ("none", Self::None)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_choices_are_their_positions() {
        for (number, (_, hash)) in (0..).zip(Hash::ALL) {
            assert_eq!((u8::from(*hash), Hash::try_from(number)), (number, Ok(*hash)));
        }
        for (number, (_, fsync)) in (0..).zip(Fsync::ALL) {
            assert_eq!((u8::from(*fsync), Fsync::try_from(number)), (number, Ok(*fsync)));
        }
    }

    #[test]
    fn unknown_numbers_are_refused() {
        assert_eq!(Hash::try_from(3), Err("the hash function 3 is unknown".to_owned()));
        assert!(Fsync::try_from(255).is_err());
    }
}
