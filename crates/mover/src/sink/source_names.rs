//! Names of the source, to find the entries that only the destination has.

use super::case_folding;
use super::options::SinkOptions;
use crate::name::Name;
use crate::name_set::NameSet;
use crate::port::NameMatching;

/// The names that the source sent, as the destination compares them.
///
/// Invariant: complete after the last batch if extra entries are removed, and empty otherwise.
#[derive(Debug)]
pub(super) struct SourceNames {
    names: NameMatching,
    /// Whether extra entries are removed.
    delete: bool,
    all: NameSet<6>,
    /// Directories among these.
    directories: NameSet<6>,
}

impl SourceNames {
    /// Creates an empty set.
    pub fn new(options: &SinkOptions) -> Self {
        let (names, delete) = (options.names, options.delete);
        Self { names, delete, all: NameSet::default(), directories: NameSet::default() }
    }

    /// Adds a name that is not a directory.
    pub fn add(&mut self, name: &Name) {
        if self.delete {
            self.all.add(case_folding::key(self.names, name));
        }
    }

    /// Adds a directory.
    pub fn add_directory(&mut self, name: &Name) {
        if self.delete {
            let key = case_folding::key(self.names, name);
            self.all.add(&key);
            self.directories.add(&key);
        }
    }

    /// Returns whether the source has this name.
    pub fn contains(&self, name: &Name) -> bool {
        self.all.has(case_folding::key(self.names, name))
    }

    /// Returns whether the source has a directory of this name.
    pub fn contains_directory(&self, name: &Name) -> bool {
        self.directories.has(case_folding::key(self.names, name))
    }
}
