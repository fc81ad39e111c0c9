//! A proof that source and destination are different directories: one directory can be reached by
//! ssh to this host, through bind and FUSE mounts, or on a file system that two hosts share.

use super::transfer_request::TransferRequest;
use crate::paths::path_of;
use crate::TransferError;
use numaio_mover_linux::files::{Base, Marker};
use std::path::{Path, PathBuf};

impl TransferRequest {
    /// Returns whether the transfer could destroy a source that is the destination: with
    /// `--inplace`, files are truncated before they are read.
    fn needs_marker(&self) -> bool {
        let is_dangerous = self.options.in_place || self.options.delete;
        is_dangerous && !self.options.dry_run
    }

    /// Returns the name of a file that exists in the destination until the source has looked for
    /// it. Both sides know it, and no other transfer has it.
    fn marker_name(&self) -> PathBuf {
        PathBuf::from(format!(".numaio-part-{:032x}", u128::from_be_bytes(self.transfer)))
    }

    /// Marks the destination, unless nothing can be destroyed there.
    ///
    /// # Errors
    /// [`TransferError::CannotWrite`] if files could be destroyed and it cannot be marked.
    pub fn mark_destination(&self) -> Result<Option<Marker>, TransferError> {
        let Some(directory) = self.directory_at_risk().filter(|_| self.needs_marker()) else {
            return Ok(None);
        };
        match self.base.mark(&directory, &self.marker_name()) {
            Ok(marker) => Ok(Some(marker)),
            // Without a permission to create files, none can be removed either.
            Err(_) if !self.options.in_place => Ok(None),
            Err(error) => Err(TransferError::CannotWrite { path: directory, error }),
        }
    }

    /// Returns the existing directory in which files get the names that they have at the source.
    fn directory_at_risk(&self) -> Option<PathBuf> {
        let to = path_of(&self.to);
        if self.base.is_directory(&to) {
            return Some(to);
        }
        let [from] = &self.from[..] else { return None };
        let is_same_name = to.file_name().is_some() && to.file_name() == path_of(from).file_name();
        let parent = match to.parent()? {
            parent if parent.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        (is_same_name && self.base.is_directory(parent)).then(|| parent.to_owned())
    }

    /// Checks that no directory of the source has the marker of the destination.
    ///
    /// # Errors
    /// [`TransferError::SourceIsDestination`].
    pub fn check_not_marked(&self) -> Result<(), TransferError> {
        if !self.needs_marker() {
            return Ok(());
        }
        let (roots, _) = self.origins()?;
        match roots.into_iter().find(|root| is_marked(&self.base, root, &self.marker_name())) {
            Some(path) => Err(TransferError::SourceIsDestination { path, why: SAME_DIRECTORY }),
            None => Ok(()),
        }
    }
}

const SAME_DIRECTORY: &str =
    "both are the same directory, whose files --inplace or --delete would destroy; omit these options";

fn is_marked(base: &Base, root: &Path, marker: &Path) -> bool {
    base.exists(&root.join(marker))
}
