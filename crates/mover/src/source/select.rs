//! Which scanned objects are copied.

use super::options::SourceOptions;
use crate::name::Name;
use crate::own_files::is_own_file;
use crate::port::{DirectoryIdentity, Fault, FaultKind, FileInfo, FileKind, FileStat};

/// How to treat a scanned object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// Announce it.
    Copy,
    /// Skip it silently.
    Skip,
    /// Skip it and report why.
    Report(&'static str),
}

impl SourceOptions {
    /// Selects an object. `enter` is `false` for a parent directory of a listed name.
    pub(super) fn select(&self, name: &Name, enter: bool, found: &FileInfo) -> Selection {
        let is_directory = found.metadata.kind == FileKind::Directory;
        // Sockets are useless without their server.
        if found.metadata.kind == FileKind::Socket {
            return match self.is_origin(name) {
                true => Selection::Report("sockets are not copied"),
                false => Selection::Skip,
            };
        }
        if self.is_origin(name) && name.last().is_some_and(is_own_file) {
            return Selection::Report("this name is reserved for numaio");
        }
        if self.is_destination(name, found) {
            return self.select_destination(name, enter && is_directory);
        }
        // Like rsync, filter rules do not apply to the parents of a listed name.
        if enter && !self.filter.includes(name, is_directory) {
            return Selection::Skip;
        }
        if !enter && !is_directory {
            // The listed name itself fails with "not found".
            return match found.metadata.kind {
                FileKind::Symlink => {
                    Selection::Report("a symbolic link in the path of a listed name is not followed")
                }
                _ => Selection::Skip,
            };
        }
        let is_plain = !self.recursive && !self.listed && !self.xattrs;
        if is_plain && matches!(found.metadata.kind, FileKind::Fifo | FileKind::CharacterDevice(..)) {
            return Selection::Report(
                "is not a regular file: write its output to a file first; -a copies it as it is",
            );
        }
        if is_directory && !self.recursive && !self.listed {
            return Selection::Report("is a directory: use -r or -a to copy it");
        }
        match enter && found.has_hidden_xattrs {
            true => Selection::Report("cannot read its extended attributes"),
            false => Selection::Copy,
        }
    }

    /// Returns whether an object belongs to the shard. All shards have all directories.
    pub(super) fn is_in_shard(&self, name: &Name, metadata: &FileStat) -> bool {
        metadata.kind == FileKind::Directory || self.shard.is_none_or(|shard| shard.contains(name, metadata))
    }

    /// Returns whether another shard reports that an object does not exist. A source that the user
    /// named may be a directory, which all shards need.
    pub(super) fn is_absent_from_shard(&self, name: &Name, fault: &Fault) -> bool {
        matches!(fault.why, FaultKind::NotFound | FaultKind::Changed)
            && !self.is_origin(name)
            && !name.is_root()
            && self.shard.is_some_and(|shard| !shard.contains_name(name))
    }

    /// Returns whether the user named an object.
    fn is_origin(&self, name: &Name) -> bool {
        // A list of names may be long, and is reported by the sink.
        !self.listed && self.origins.iter().any(|origin| origin.only.as_ref() == Some(name))
    }

    /// Returns whether an object is the destination, which is not copied into itself.
    fn is_destination(&self, name: &Name, found: &FileInfo) -> bool {
        let is_it = |skipped: DirectoryIdentity| skipped.is_same(&found.directory_identity());
        self.skip_directory.is_some_and(is_it) && !name.is_root()
    }

    /// Selects the destination: it is reported if it is a source itself and not excluded, and
    /// silently skipped below a source.
    fn select_destination(&self, name: &Name, is_entered: bool) -> Selection {
        match is_entered && self.is_origin(name) && self.filter.includes(name, true) {
            true => Selection::Report("the destination cannot be copied into itself"),
            false => Selection::Skip,
        }
    }
}
