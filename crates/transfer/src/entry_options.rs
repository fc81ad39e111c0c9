//! Options of a transfer that select entries, and change what is copied.

use numaio_mover::shard::Shard;
use serde::{Deserialize, Serialize};

/// Options of a transfer that select entries, and change what is copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryOptions {
    /// Copy mount points below a source as empty directories.
    pub one_file_system: bool,
    /// Copy the targets of symbolic links.
    pub copy_links: bool,
    /// Copy the targets of links that the user named.
    pub follow_named: bool,
    /// Remove entries, except directories, at the source when the sink has stored them.
    pub remove_source_files: bool,
    /// Directories of earlier snapshots, relative to the destination: unchanged files become hard
    /// links to them.
    pub link_dest: Vec<Vec<u8>>,
    /// Where replaced objects are kept.
    pub backup: Option<Backup>,
    /// Describe which attributes each change concerns.
    pub itemize: bool,
    /// Changes of modes.
    pub chmod: Option<Chmod>,
    /// Owners of all entries.
    pub chown: Option<Chown>,
    /// Skip entries whose names do not exist at the destination.
    pub existing: bool,
    /// Skip entries whose names exist at the destination, except directories.
    pub ignore_existing: bool,
    /// The part of the files to copy; all if `None`.
    #[serde(with = "crate::shard_text")]
    pub shard: Option<Shard>,
    /// The plan for the threads of the peer, as the user's file has it.
    pub remote_plan: Option<String>,
    /// Complete what the shards of the same sources copied.
    pub finish: bool,
    /// Create missing parents of the destination.
    pub make_parents: bool,
}

impl EntryOptions {
    /// Returns whether links are followed. Without recursion all links are named.
    pub fn follows_links(&self) -> bool {
        self.copy_links || self.follow_named
    }
}

/// Changes of modes, as the user typed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chmod {
    /// The changes, in the syntax of [`ModeChanges`](numaio_mover::mode_changes::ModeChanges).
    pub changes: String,
    /// The umask of the user, which limits changes without a class.
    pub umask: u32,
}

/// Owners of all entries: names or IDs at the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chown {
    /// The owning user; `None` for that of the source.
    pub user: Option<String>,
    /// The owning group; `None` for that of the source.
    pub group: Option<String>,
}

/// Where replaced objects are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A directory, relative to the destination; `None` for the directory of the object.
    pub directory: Option<Vec<u8>>,
    /// Added to each name.
    pub suffix: Vec<u8>,
}
