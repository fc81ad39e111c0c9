//! Names of the source, to find the entries that only the destination has.

use super::case_folding;
use super::options::SinkOptions;
use crate::name::Name;
use crate::name_set::NameSet;
use crate::port::NameMatching;
use crate::wire::WireError;

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
    /// Names of which the source did not send all contents, if they are directories.
    unlisted: NameSet<6>,
    /// Whether the source sends no contents of mount points.
    one_file_system: bool,
}

impl SourceNames {
    /// Creates an empty set.
    pub fn new(options: &SinkOptions) -> Self {
        Self {
            names: options.names,
            delete: options.delete,
            all: NameSet::default(),
            directories: NameSet::default(),
            unlisted: NameSet::default(),
            one_file_system: options.one_file_system,
        }
    }

    /// Adds a directory, which follows, whose contents are kept.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] unless contents of mount points are excluded and extra entries
    /// removed.
    pub fn add_mount_point(&mut self, name: &Name) -> Result<(), WireError> {
        if !self.one_file_system || !self.delete {
            return Err(WireError::InvalidValue("a mount point that was not requested"));
        }
        self.unlisted.add(case_folding::key(self.names, name));
        Ok(())
    }

    /// Adds a name that the source has or may have, and whose contents are kept.
    pub fn add_unlisted(&mut self, name: &Name) {
        if self.delete {
            let key = case_folding::key(self.names, name);
            self.all.add(&key);
            self.unlisted.add(&key);
        }
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

    /// Returns whether the source has a directory of this name, and sent all of its contents.
    pub fn contains_directory(&self, name: &Name) -> bool {
        let key = case_folding::key(self.names, name);
        self.directories.has(&key) && !self.unlisted.has(&key)
    }
}
