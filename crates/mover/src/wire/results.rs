//! Reports of a sink: changes, hashes for a manifest, and totals.

use super::itemized::Itemized;
use crate::name::Name;
use crate::port::Digest;

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
    /// The changed attributes, if they were requested.
    pub itemized: Option<Box<Itemized>>,
}

/// The kind of a change at the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// A file received new content.
    Copied,
    /// A directory, link, pipe or device was created.
    Created,
    /// Only attributes were changed.
    AttributesSet,
    /// An entry was removed because the source does not have it.
    Removed,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Copied, Self::Created, Self::AttributesSet, Self::Removed];

    /// Returns the name used in output and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Created => "made",
            Self::AttributesSet => "attributes",
            Self::Removed => "removed",
        }
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
