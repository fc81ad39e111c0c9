//! Files that do not have the content of the source, which hard links to them must consider.

use super::batches::{LookupResult, MAX_OPEN_ENTRIES};
use crate::name::Name;
use crate::name_set::NameSet;
use crate::port::{FileStat, Stamp};
use std::collections::HashMap;

/// Files that failed, were skipped, or in a dry run would be replaced.
///
/// Invariant: a file in none of these sets has, or will have, its expected content, unless failures
/// were too many to remember.
#[derive(Debug, Default)]
pub(super) struct FileResults {
    /// The first failed names; of files with received data also the expected size and mtime.
    failed: HashMap<Name, Option<(u64, Option<Stamp>)>>,
    /// Whether there were more failed names.
    failed_others: bool,
    /// Files that are skipped because of their size.
    size_excluded: NameSet<6>,
    /// Files that are skipped because they are newer here.
    newer: NameSet<6>,
    /// Files with other content, or none, that are skipped because they exist, or do not.
    skipped: NameSet<6>,
    /// Files that would be replaced in a dry run: hard links to the old file would then differ.
    would_be_replaced: NameSet<6>,
}

impl FileResults {
    /// Records a failed name, with the expected size and mtime if it was to be a file.
    pub fn add_failure(&mut self, name: &Name, expected: Option<(u64, Option<Stamp>)>) {
        match self.failed.len() < MAX_OPEN_ENTRIES || self.failed.contains_key(name) {
            true => drop(self.failed.insert(name.clone(), expected)),
            false => self.failed_others = true,
        }
    }

    /// Records a file that is skipped because of its size.
    pub fn add_size_excluded(&mut self, name: &Name) {
        self.size_excluded.add(name);
    }

    /// Records a file that is skipped because it is newer here.
    pub fn add_newer(&mut self, name: &Name) {
        self.newer.add(name);
    }

    /// Records a file that is skipped because it exists with other content, or does not exist.
    pub fn add_skipped(&mut self, name: &Name) {
        self.skipped.add(name);
    }

    /// Records a file that would be replaced, in a dry run.
    pub fn add_replacement(&mut self, name: &Name) {
        self.would_be_replaced.add(name);
    }

    /// Returns whether a name is known to have failed.
    pub fn has_failed(&self, name: &Name) -> bool {
        self.failed.contains_key(name)
    }

    /// Returns whether a file was skipped because of its size.
    pub fn is_size_excluded(&self, name: &Name) -> bool {
        self.size_excluded.has(name)
    }

    /// Returns whether a file was skipped because it is newer here.
    pub fn is_newer(&self, name: &Name) -> bool {
        self.newer.has(name)
    }

    /// Returns whether a file was skipped because it exists with other content, or does not exist.
    pub fn is_skipped(&self, name: &Name) -> bool {
        self.skipped.has(name)
    }

    /// Returns whether a file was not copied on request.
    pub fn is_left_out(&self, name: &Name) -> bool {
        self.is_skipped(name) || self.is_newer(name) || self.is_size_excluded(name)
    }

    /// Returns whether a file would be replaced, in a dry run.
    pub fn would_be_replaced(&self, name: &Name) -> bool {
        self.would_be_replaced.has(name)
    }

    /// Returns whether a name has its expected content; if it failed, only an attribute may be
    /// missing.
    pub fn has_expected_content(&self, name: &Name, found: &LookupResult) -> bool {
        let is_it =
            |metadata: &FileStat, (size, mtime)| metadata.size == size && Some(metadata.mtime) == mtime;
        match (self.failed.get(name), found) {
            (None, _) => !self.failed_others,
            (Some(Some(expected)), Ok(Some(found))) => is_it(&found.metadata, *expected),
            _ => false,
        }
    }
}
