//! A proof that source and destination are different directories: one directory can be reached by
//! ssh to this host, through bind and FUSE mounts, or on a file system that two hosts share.
//!
//! The destination has a marker while the transfer runs. The source looks for it in its directories
//! and above them before it sends anything, and in each directory that it lists later. With
//! `--delete`, writable source directories have markers, too, and the sink removes nothing there.

use super::transfer_request::TransferRequest;
use crate::options::CopyOptions;
use crate::paths::path_of;
use crate::TransferError;
use numaio_mover::name::Name;
use numaio_mover::sink::{marker_name, MarkedDirectory};
use numaio_mover::source::Origin;
use numaio_mover::wire::{Side, TransferId};
use numaio_mover_linux::files::{identity_of, Marker, Roots};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const SAME_DIRECTORY: &str = "both are the same directory, whose files --inplace, --delete, \
    --remove-source-files or --backup-dir could destroy; omit these options";
const DESTINATION_BELOW: &str = "the destination cannot be copied into itself; exclude it";
const SOURCE_BELOW: &str = "it is a source directory, and not deleted";

/// The markers of a transfer at its destination. All but that of the destination itself exist only
/// until the source has looked for them.
#[derive(Debug, Default)]
pub struct DestinationMarkers {
    destination: Option<PlacedMarker>,
    others: Vec<PlacedMarker>,
    is_confirmed: bool,
}

/// A marker and its directory.
type PlacedMarker = (PathBuf, Marker);

impl DestinationMarkers {
    /// Confirms that the source could find all markers until now.
    ///
    /// # Errors
    /// [`TransferError::NotMarked`] if one was removed, so that its absence at the source proves
    /// nothing.
    pub fn confirm(&mut self) -> Result<(), TransferError> {
        if std::mem::replace(&mut self.is_confirmed, true) {
            return Ok(());
        }
        let others = std::mem::take(&mut self.others);
        for (path, marker) in others.iter().chain(&self.destination) {
            let lost = |error| TransferError::NotMarked { path: path.clone(), error };
            marker.check().map_err(lost)?;
        }
        Ok(())
    }
}

impl TransferRequest {
    /// Returns whether the transfer could destroy a source that is the destination: with
    /// `--inplace`, files are truncated before they are read.
    fn is_destructive(&self) -> bool {
        let CopyOptions { in_place, delete, dry_run, entries, .. } = &self.options;
        (*in_place || *delete || entries.remove_source_files || self.backup_path().is_some()) && !dry_run
    }

    /// Returns whether the source looks for a marker: also because a directory that is copied into
    /// itself would grow without end.
    fn may_be_marked(&self) -> bool {
        let may_recurse = self.options.recursive && !self.options.dry_run && !self.is_local;
        self.is_destructive() || may_recurse
    }

    /// Returns whether the destination is marked. A file system that may be unable to remove the
    /// marker gets none unless files could be destroyed.
    fn needs_marker(&self) -> bool {
        self.may_be_marked() && (self.is_destructive() || !self.may_need_order())
    }

    /// Returns the directory of backups.
    fn backup_path(&self) -> Option<PathBuf> {
        let directory = self.options.entries.backup.as_ref()?.directory.as_ref()?;
        let to = path_of(&self.to);
        // The name of a file is in its parent directory.
        let root = if self.base.is_directory(&to) { &to } else { to.parent().unwrap_or(&to) };
        Some(root.join(path_of(directory)))
    }

    /// Returns the name of a file that both sides know, and no other process.
    fn marker_name(&self, of: MarkedDirectory) -> Vec<u8> {
        marker_name(TransferId(self.transfer), of)
    }

    /// Returns the name of the marker of the destination, if it has one.
    pub(super) fn own_marker(&self) -> Option<String> {
        let name = || String::from_utf8_lossy(&self.marker_name(MarkedDirectory::Destination)).into_owned();
        self.needs_marker().then(name)
    }

    /// Lets a side recognize the directories of the other one when it lists them.
    pub(super) fn refuse_other_side(&self, side: Side, roots: &mut Roots) {
        match side {
            Side::Source if self.may_be_marked() => {
                roots.refuse_marked(self.marker_name(MarkedDirectory::Destination), DESTINATION_BELOW);
                // Copied onto itself, a directory does not change.
                roots.accept_marked_roots();
            }
            Side::Sink if self.options.delete => {
                roots.refuse_marked(self.marker_name(MarkedDirectory::Source), SOURCE_BELOW);
            }
            _ => {}
        }
    }

    /// Marks the directories of the source, if the sink could remove them and they are writable.
    ///
    /// # Errors
    /// [`TransferError::NoName`].
    pub fn mark_sources(&self) -> Result<Vec<Marker>, TransferError> {
        if !self.options.delete || self.options.dry_run {
            return Ok(Vec::new());
        }
        let (roots, origins) = self.origins()?;
        let directory = |origin: &Origin| {
            let root = roots.get(origin.root as usize)?.clone();
            let only = origin.only.as_ref().filter(|_| self.options.file_list.is_none());
            let Some(only) = only else { return Some(root) };
            let path = root.join(path_of(only.as_bytes()));
            (self.options.entries.follows_links() || !self.base.is_not_directory(&path)).then_some(path)
        };
        let directories: BTreeSet<PathBuf> = origins.iter().filter_map(directory).collect();
        let own = directories.iter().filter(|path| self.base.keeps_time_when_marked(path));
        let name = || self.marker_name(MarkedDirectory::Source);
        Ok(own.filter_map(|path| self.base.mark(path, name()).ok()).collect())
    }

    /// Marks the existing directories in which files could be destroyed.
    ///
    /// # Errors
    /// [`TransferError::NotMarked`] if one cannot be marked, so that nothing would prove that it
    /// is not the source.
    pub fn mark_destination(&self) -> Result<DestinationMarkers, TransferError> {
        // A lost marker is a danger only to files that are destroyed.
        let is_confirmed = !self.is_destructive();
        let mut markers = DestinationMarkers { is_confirmed, ..DestinationMarkers::default() };
        if !self.needs_marker() {
            return Ok(markers);
        }
        if let Some(backups) = self.backup_path().filter(|path| self.base.is_directory(path)) {
            markers.others.extend(self.mark(backups, MarkedDirectory::Backups)?);
        }
        let Some((directory, is_destination)) = self.directory_at_risk() else { return Ok(markers) };
        let marker = self.mark(directory, MarkedDirectory::Destination)?;
        match is_destination {
            true => markers.destination = marker,
            false => markers.others.extend(marker),
        }
        Ok(markers)
    }

    /// Marks a destination directory that was created, which may be inside the source.
    pub fn mark_created(&self, markers: &mut DestinationMarkers) {
        if self.needs_marker() && markers.destination.is_none() {
            markers.destination = self.mark(path_of(&self.to), MarkedDirectory::Destination).ok().flatten();
        }
    }

    fn mark(&self, path: PathBuf, of: MarkedDirectory) -> Result<Option<PlacedMarker>, TransferError> {
        let replaces_source = self.options.in_place || self.options.entries.remove_source_files;
        match self.base.mark(&path, self.marker_name(of)) {
            Ok(marker) => Ok(Some((path, marker))),
            // Without a permission to create files, none can be removed or replaced either.
            Err(error)
                if !self.is_destructive()
                    || !replaces_source
                        && matches!(
                            error.kind(),
                            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                        ) =>
            {
                Ok(None)
            }
            Err(error) => Err(TransferError::NotMarked { path, error }),
        }
    }

    /// Returns the existing directory in which files get the names that they have at the source,
    /// and whether it is the destination: a file may have its name in the path of the destination.
    fn directory_at_risk(&self) -> Option<(PathBuf, bool)> {
        let to = path_of(&self.to);
        if self.base.is_directory(&to) {
            return Some((to, true));
        }
        let [from] = &self.from[..] else { return None };
        let is_same_name = to.file_name().is_some() && to.file_name() == path_of(from).file_name();
        let parent = match to.parent()? {
            parent if parent.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        (is_same_name && self.base.is_directory(parent)).then(|| (parent.to_owned(), false))
    }

    /// Checks that no directory of the source is marked, or is below a marked one that would lose
    /// its files. `is_local` is whether the sink, on this host, protects source directories that
    /// it recognizes.
    ///
    /// # Errors
    /// [`TransferError::SourceIsDestination`], [`TransferError::SourceInside`]; I/O error.
    pub fn check_not_marked(&self, is_local: bool) -> Result<(), TransferError> {
        if !self.is_destructive() {
            return Ok(());
        }
        let (roots, origins) = self.origins()?;
        for (of, outer) in [
            (MarkedDirectory::Destination, "the destination"),
            (MarkedDirectory::Backups, "the directory of backups"),
        ] {
            let (marker, is_destination) = (self.marker_name(of), of == MarkedDirectory::Destination);
            if !is_destination && self.backup_path().is_none() {
                continue;
            }
            for (number, root) in roots.iter().enumerate() {
                let found = self.base.path_from_marked(root, &marker);
                let failed = |error| TransferError::File { path: root.clone(), error };
                let Some(below) = found.map_err(failed)? else { continue };
                if is_local && is_destination && self.is_known_inside(root, &below) {
                    continue;
                }
                let deletes = is_destination && self.options.delete;
                let mut origins = origins.iter().filter(|origin| origin.root as usize == number);
                if !origins.any(|origin| self.is_lost((root, origin), &below, deletes)) {
                    continue;
                }
                let path = root.clone();
                return Err(match is_destination && below.as_os_str().is_empty() {
                    true => TransferError::SourceIsDestination { path, why: SAME_DIRECTORY },
                    false => TransferError::SourceInside { path, outer },
                });
            }
        }
        Ok(())
    }

    /// Returns whether files of an origin could be destroyed. Its root is `below` a marked
    /// directory, in which `deletes` is whether extra entries are removed.
    fn is_lost(&self, (root, origin): (&Path, &Origin), below: &Path, deletes: bool) -> bool {
        if below.as_os_str().is_empty() {
            return true;
        }
        // The destination has the same name in the marked directory as the source in its root.
        let name = path_of(origin.only.as_ref().map_or(b"", Name::as_bytes));
        let exists = |path: &Path| self.base.exists(&root.join(path));
        let source_in_destination = below.join(&name).strip_prefix(&name).map(Path::to_owned);
        source_in_destination.is_ok_and(|path| deletes || exists(&name.join(path)))
            || name.strip_prefix(below).is_ok_and(exists)
    }

    /// Returns whether a root is inside the destination by the numbers of the directory that it is
    /// `below`.
    fn is_known_inside(&self, root: &Path, below: &Path) -> bool {
        if below.as_os_str().is_empty() {
            return false;
        }
        let above = below.components().fold(root.to_owned(), |path, _| path.join(".."));
        let destination = self.destination_identity();
        identity_of(&above, true).zip(destination).is_some_and(|(above, to)| above.is_same(&to))
    }
}
