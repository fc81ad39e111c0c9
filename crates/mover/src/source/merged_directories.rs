//! Directories that several origins have, on several storage devices.
//!
//! The first origin with a name wins. So the origins list such a directory one after the other, and
//! its subdirectories are entered when all have listed it. Everything else is scanned side by side.

use super::listed_directory::{ListedDirectory, MergeNumber};
use crate::name::Name;
use crate::port::FilePath;
use std::collections::{BTreeMap, VecDeque};

/// The directory of one origin, to be listed.
#[derive(Debug)]
pub(super) struct MergedPart {
    /// The path at the source.
    pub path: FilePath,
    /// The name at the sink.
    pub name: Name,
    /// The directory.
    pub directory: ListedDirectory,
}

/// Directories of one parent, by name, each with its parts in the order of the origins.
type Subdirectories = BTreeMap<Name, VecDeque<MergedPart>>;

/// A directory that is listed.
#[derive(Debug, Default)]
struct MergedDirectory {
    /// Parts that wait until the previous one is listed.
    waiting: VecDeque<MergedPart>,
    /// Whether a part is being listed.
    is_listing: bool,
    found: Subdirectories,
}

/// The merged directories that are not completely listed.
///
/// Invariant: a part is returned once, when all earlier parts of its directory are listed.
#[derive(Debug, Default)]
pub(super) struct MergedDirectories {
    /// Directories at which origins start.
    origins: Subdirectories,
    directories: BTreeMap<MergeNumber, MergedDirectory>,
    last: MergeNumber,
}

impl MergedDirectories {
    /// Returns whether no part waits and none is being listed.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.directories.is_empty()
    }

    /// Adds a directory at which an origin starts.
    pub fn add_origin(&mut self, part: MergedPart) {
        self.origins.entry(part.name.clone()).or_default().push_back(part);
    }

    /// Adds a directory that a part of a merged directory contains.
    pub fn add(&mut self, above: MergeNumber, part: MergedPart) {
        if let Some(directory) = self.directories.get_mut(&above) {
            directory.found.entry(part.name.clone()).or_default().push_back(part);
        }
    }

    /// Records that a part was listed, or failed; its subdirectories are added afterwards.
    pub fn listed(&mut self, merged: Option<MergeNumber>) {
        let directory = merged.and_then(|number| self.directories.get_mut(&number));
        if let Some(directory) = directory {
            directory.is_listing = false;
        }
    }

    /// Returns the parts that can be listed now, the first to list last. `all_origins` is whether
    /// all origins were added.
    pub fn take_listable(&mut self, all_origins: bool) -> Vec<MergedPart> {
        let mut parts = Vec::new();
        if all_origins && !self.origins.is_empty() {
            let origins = std::mem::take(&mut self.origins);
            self.start(origins, &mut parts);
        }
        let idle = self.directories.iter().filter(|(_, directory)| !directory.is_listing);
        let idle: Vec<MergeNumber> = idle.map(|(number, _)| *number).collect();
        for number in idle {
            let Some(directory) = self.directories.get_mut(&number) else { continue };
            match directory.waiting.pop_front() {
                Some(part) => {
                    directory.is_listing = true;
                    parts.push(with_number(part, number));
                }
                None => {
                    let complete = self.directories.remove(&number).unwrap_or_default();
                    self.start(complete.found, &mut parts);
                }
            }
        }
        parts
    }

    /// Starts directories: those that a single origin has are not merged.
    fn start(&mut self, directories: Subdirectories, parts: &mut Vec<MergedPart>) {
        for (_, mut waiting) in directories.into_iter().rev() {
            let Some(first) = waiting.pop_front() else { continue };
            if waiting.is_empty() {
                parts.push(first);
                continue;
            }
            self.last += 1;
            let directory = MergedDirectory { waiting, is_listing: true, ..MergedDirectory::default() };
            self.directories.insert(self.last, directory);
            parts.push(with_number(first, self.last));
        }
    }
}

fn with_number(mut part: MergedPart, number: MergeNumber) -> MergedPart {
    part.directory.merged = Some(number);
    part
}
