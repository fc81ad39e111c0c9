//! Changed attributes of an entry, for output and for other hosts.

use crate::line::sanitize;
use numaio_mover::report::EntryCounts;
use numaio_mover::wire::Itemized;
use numaio_schema::Job;
use serde::{Deserialize, Serialize};

/// The changed attributes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedItem {
    /// The letters of rsync's `--itemize-changes`.
    pub letters: String,
    /// The letter of the kind: `f`, `d`, `L`, `D` or `S`.
    pub kind: char,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The size of a regular file in bytes.
    pub size: u64,
}

impl ChangedItem {
    /// Converts the description of a sink; `sends` is whether the sink is on another host.
    pub fn new(itemized: &Itemized, sends: bool) -> Self {
        let target = itemized.target.as_ref().map(|target| sanitize(&String::from_utf8_lossy(target)));
        let letters = match itemized.letters().strip_prefix('>') {
            Some(attributes) if sends => format!("<{attributes}"),
            _ => itemized.letters().to_owned(),
        };
        let kind = itemized.kind.letter().into();
        Self { letters, kind, target, size: itemized.size }
    }

    /// Returns whether the entry was created.
    pub fn is_new(&self) -> bool {
        self.letters.contains('+')
    }

    /// Returns whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == 'd'
    }

    /// Returns the item without control characters in its texts.
    pub(crate) fn sanitize(self) -> Self {
        let kind = if self.kind.is_ascii_graphic() { self.kind } else { '?' };
        Self {
            letters: sanitize(&self.letters),
            kind,
            target: self.target.map(|target| sanitize(&target)),
            ..self
        }
    }

    /// Returns the item with texts of limited length.
    pub(crate) fn truncated(self) -> Self {
        let letters = Job::truncate_text(self.letters);
        Self { letters, target: self.target.map(Job::truncate_name), ..self }
    }
}

/// Numbers of entries of the source, with `--stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryStatistics {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices.
    pub devices: u64,
    /// Named pipes.
    pub special: u64,
    /// Bytes of all files and link targets.
    pub bytes: u64,
}

impl From<EntryCounts> for EntryStatistics {
    fn from(counts: EntryCounts) -> Self {
        let EntryCounts { files, directories, links, devices, special, bytes } = counts;
        Self { files, directories, links, devices, special, bytes }
    }
}
