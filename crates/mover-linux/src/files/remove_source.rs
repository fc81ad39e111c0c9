//! Removal of files of the source that the sink has stored.

use super::fault::fault;
use super::file_stat::file_stat;
use super::identity::{changed, is_renumbered_in};
use super::path::{ResolvedName, Resolver};
use super::roots::Roots;
use numaio_mover::port::{Fault, FaultKind, FileKind, FileStat, Identity, SourceRemoval};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

impl Roots {
    /// Removes a file of the source, unless it changed or is its own copy.
    pub(super) fn remove_source(
        &self,
        resolver: &mut Resolver<'_>,
        removal: &SourceRemoval,
    ) -> Result<(), Fault> {
        let copy = match &removal.destination {
            Some(copy) => {
                let place = resolver.resolve_or_errno(copy).ok();
                place.and_then(|place| {
                    rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW).ok()
                })
            }
            None => None,
        };
        let place = match resolver.resolve_or_errno(&removal.at) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            place => place.map_err(fault("open directory"))?,
        };
        let metadata = match self.source_stat(place) {
            Err(Errno::NOENT) => return Ok(()),
            metadata => metadata.map_err(fault("stat"))?,
        };
        let inode = |metadata: &FileStat| (metadata.volume, metadata.inode);
        if copy.is_some_and(|copy| inode(&file_stat(&copy)) == inode(&metadata)) {
            return Err(Fault::new(FaultKind::Exists, "it is the same file as its copy"));
        }
        let renumbered = Identity { inode: metadata.inode, ..removal.identity };
        let is_same = metadata.identity() == removal.identity
            || metadata.identity() == renumbered && is_renumbered_in(place.directory);
        if metadata.kind == FileKind::Directory || !is_same {
            return Err(changed());
        }
        rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty()).map_err(fault("remove"))
    }

    /// Returns the attributes of an object as the scan found them: those of the target, if links
    /// are followed.
    fn source_stat(&self, place: ResolvedName<'_>) -> Result<FileStat, Errno> {
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match (file_stat(&stat), &self.followed) {
            (metadata, Some(scope)) if metadata.kind == FileKind::Symlink => {
                Ok(file_stat(&rustix::fs::fstat(scope.open(place, OFlags::PATH)?)?))
            }
            (metadata, _) => Ok(metadata),
        }
    }
}
