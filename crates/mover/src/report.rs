//! What a transfer tells its user.

use crate::wire::{SinkChange, Problem, Reason, Side, ManifestEntry};
use numaio_machine::port::Why;

/// How far a transfer is; jobs note it.
pub use numaio_schema::JobTotals as Totals;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Something was made, changed or removed at the sink; or it would be, in a rehearsal.
    Change(SinkChange),
    /// A file is at the sink in the end, and this is the hash of all that it holds.
    ManifestEntry(ManifestEntry),
    /// Something went wrong; the transfer goes on, unless it is about the transfer.
    Problem(Problem),
}

/// What was done to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// A file has new content.
    Copied,
    /// A directory, link, pipe or device was made.
    Created,
    /// Only attributes were set.
    AttributesSet,
    /// It was removed, as the source does not have it.
    Removed,
}

impl ChangeKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Copied, Self::Created, Self::AttributesSet, Self::Removed];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Created => "made",
            Self::AttributesSet => "attributes",
            Self::Removed => "removed",
        }
    }
}

/// How a side came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferOutcome {
    /// All that was asked for was done, but for problems that were told.
    Done,
    /// The transfer was given up; the reason was told as a problem about the transfer.
    Failed,
}

/// The protocol's word for a fault of a port.
pub fn reason(why: Why) -> Reason {
    match why {
        Why::Other => Reason::Other,
        Why::NotFound => Reason::NotFound,
        Why::Permission => Reason::Permission,
        Why::NoSpace => Reason::NoSpace,
        Why::Quota => Reason::Quota,
        Why::ReadOnly => Reason::ReadOnly,
        Why::NameTooLong => Reason::NameTooLong,
        Why::Link => Reason::Link,
        Why::Exists => Reason::Exists,
        Why::Changed => Reason::Changed,
        Why::Mismatch => Reason::Mismatch,
        Why::Unsupported => Reason::Unsupported,
        Why::Device => Reason::Device,
        Why::Cancelled => Reason::Cancelled,
    }
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}
