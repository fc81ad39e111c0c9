//! Reports and results of a transfer for its user.

use crate::entry::{Kind, Object};
use crate::port::FaultKind;
use crate::wire::{ManifestEntry, Problem, Reason, SinkChange};

/// Running totals of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Entries found at the source.
    pub entries: u64,
    /// Bytes to transfer, of the entries found so far.
    pub size: u64,
    /// Entries created or changed at the sink.
    pub moved: u64,
    /// Entries that were up to date, or skipped on request.
    pub unchanged: u64,
    /// Entries removed at the sink.
    pub removed: u64,
    /// Number of entries with problems, other than attributes.
    pub failed: u64,
    /// Bytes of file data transferred.
    pub bytes: u64,
    /// Bytes of file data on the wire: fewer with compression, more if received data was discarded.
    pub sent: u64,
    /// Bytes reused from an interrupted transfer.
    pub resumed: u64,
}

/// Numbers of entries of the source, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryCounts {
    /// Regular files, including further hard links of a file.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices.
    pub devices: u64,
    /// Named pipes.
    pub special: u64,
    /// Bytes of all regular files, each counted once, and of the targets of symbolic links.
    pub bytes: u64,
}

impl EntryCounts {
    /// Adds an entry.
    pub fn add(&mut self, object: &Object) {
        let Object::New(inode) = object else {
            self.files += 1;
            return;
        };
        let (count, bytes) = match &inode.kind {
            Kind::File(content) => (&mut self.files, content.size()),
            Kind::Directory => (&mut self.directories, 0),
            Kind::Symlink(target) => (&mut self.links, target.as_bytes().len() as u64),
            Kind::CharacterDevice(_) | Kind::BlockDevice(_) => (&mut self.devices, 0),
            Kind::Fifo => (&mut self.special, 0),
        };
        *count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// An event of interest to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The sink created, changed or removed an entry, or would have in a dry run.
    Change(SinkChange),
    /// The final content hash of a file at the sink.
    ManifestEntry(ManifestEntry),
    /// A problem. The transfer continues unless the problem concerns the transfer itself.
    Problem(Problem),
}

/// The outcome of one side of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferOutcome {
    /// The transfer is complete, except for reported problems.
    Done,
    /// The transfer was aborted; the reason was reported as a problem of the transfer.
    Failed,
}

/// Returns the protocol's reason for a fault of a port.
pub fn reason(why: FaultKind) -> Reason {
    match why {
        FaultKind::Other => Reason::Other,
        FaultKind::NotFound => Reason::NotFound,
        FaultKind::Permission => Reason::Permission,
        FaultKind::NoSpace => Reason::NoSpace,
        FaultKind::Quota => Reason::Quota,
        FaultKind::ReadOnly => Reason::ReadOnly,
        FaultKind::NameTooLong => Reason::NameTooLong,
        FaultKind::Link => Reason::Link,
        FaultKind::Exists => Reason::Exists,
        FaultKind::Changed => Reason::Changed,
        FaultKind::Mismatch => Reason::Mismatch,
        FaultKind::Unsupported => Reason::Unsupported,
        FaultKind::Attribute => Reason::Attribute,
        FaultKind::NotKept => Reason::NotKept,
        FaultKind::Device => Reason::Device,
        FaultKind::Cancelled => Reason::Cancelled,
    }
}
