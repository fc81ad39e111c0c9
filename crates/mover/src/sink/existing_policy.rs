//! Which entries are skipped because of what exists at the destination.

use crate::port::{FileInfo, FileKind};

/// Which entries are skipped because of what exists at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExistingPolicy {
    /// Skip entries whose names do not exist, directories included.
    pub only_existing: bool,
    /// Skip entries whose names exist. Directories are still entered.
    pub ignore_existing: bool,
}

impl ExistingPolicy {
    /// Returns whether an entry is skipped, given the object with its name.
    pub(super) fn skips(self, is_directory: bool, found: Option<&FileInfo>) -> bool {
        match found {
            None => self.only_existing,
            Some(found) => {
                let is_merged = is_directory && found.metadata.kind == FileKind::Directory;
                self.ignore_existing && !is_merged
            }
        }
    }
}
