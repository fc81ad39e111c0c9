//! Removal of the partial files of this transfer and of an interrupted one.
//!
//! After an interrupted run, every name that is not written may have a partial file, and mostly has
//! none; only an attempt to remove it shows. Entries are decided no faster than these attempts
//! finish, so that neither memory nor the delay of an interruption grows with their number.

use crate::port::FilePath;

/// Number of waiting removals at which no more entries are decided.
pub(super) const MAX_WAITING: usize = 4_096;
/// Maximum removals of one operation.
pub(super) const BATCH: usize = 512;

/// Partial files to remove.
///
/// Invariant: the journal in memory has no valid records of these files, so no later run resumes
/// them once the invalidation is on disk.
#[derive(Debug, Default)]
pub(super) struct PartialRemovals {
    /// Files that exist.
    obsolete: Vec<FilePath>,
    /// Files that an earlier run may have left. After an abort, the next run finds them again.
    possible: Vec<FilePath>,
}

impl PartialRemovals {
    /// Adds a file that exists.
    pub fn push(&mut self, at: FilePath) {
        self.obsolete.push(at);
    }

    /// Adds a file that an earlier run may have left.
    pub fn push_possible(&mut self, at: FilePath) {
        self.possible.push(at);
    }

    /// Returns whether no removal is waiting.
    pub fn is_empty(&self) -> bool {
        self.obsolete.is_empty() && self.possible.is_empty()
    }

    /// Returns whether more entries may be decided; true again once some removals are submitted.
    pub fn has_capacity(&self) -> bool {
        self.obsolete.len() + self.possible.len() < MAX_WAITING
    }

    /// Drops the files that may not exist.
    pub fn clear_possible(&mut self) {
        self.possible.clear();
    }

    /// Takes the files of the next operation, those that certainly exist first.
    pub fn take_next(&mut self) -> Vec<FilePath> {
        let from = if self.obsolete.is_empty() { &mut self.possible } else { &mut self.obsolete };
        from.drain(..from.len().min(BATCH)).collect()
    }
}
