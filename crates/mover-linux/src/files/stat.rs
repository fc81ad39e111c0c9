//! Attributes of files and other objects.

use super::data_runs::{data_runs, RunBudget};
use super::extents::address;
use super::fault::fault;
use super::file_handle::handle_hash;
use super::file_stat::file_stat;
use super::path::{reject_short_name, ResolvedName, Resolver};
use super::proc::path_of_fd;
use super::roots::Roots;
use super::xattrs::{xattrs_of, FoundXattrs};
use numaio_mover::port::{Details, Fault, FileInfo, FileKind, FilePath, FileStat, BLOCK};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

impl Roots {
    pub(super) fn stat(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        details: Details,
        link: Option<&[u8]>,
        budget: &mut RunBudget,
    ) -> Result<Option<FileInfo>, Fault> {
        let place = match resolver.resolve_or_errno(at) {
            // A link or file in place of a directory has no entries.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            place => place.map_err(fault("open directory"))?,
        };
        match self.found(place, details, budget) {
            Err(errno) if errno == Errno::NOENT || self.followed.is_some() => {
                match self.broken_link(place, errno) {
                    Some(fault) => Err(fault),
                    None if errno == Errno::NOENT => Ok(None),
                    None => Err(fault("stat")(errno)),
                }
            }
            found => {
                let found = found.map_err(fault("stat"))?;
                let is_link_destination =
                    link.is_some_and(|target| is_link_target(place, target, &found.metadata));
                reject_short_name(place).map(|()| Some(FileInfo { is_link_destination, ..found }))
            }
        }
    }

    /// Collects the requested details of an object.
    pub(super) fn found(
        &self,
        place: ResolvedName<'_>,
        details: Details,
        budget: &mut RunBudget,
    ) -> Result<FileInfo, Errno> {
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let metadata = file_stat(&stat);
        if let (FileKind::Symlink, Some(scope)) = (metadata.kind, &self.followed) {
            return self.found_target(scope, place, details, budget);
        }
        let target = match metadata.kind {
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(place.directory, place.name, Vec::new())?;
                Some(target.into_bytes().into())
            }
            _ => None,
        };
        let is_link = metadata.kind == FileKind::Symlink;
        let xattrs = match details.xattrs && !is_link {
            true => xattrs_of(place, self.super_user)?,
            false => FoundXattrs::default(),
        };
        let wants_handle = details.handles && metadata.kind == FileKind::Directory;
        let handle = wants_handle.then(|| handle_hash(place.directory, place.name)).flatten();
        let open = || place.open(OFlags::RDONLY, Mode::empty()).ok();
        let (data, address) = self.data_and_address(&stat, details, budget, open);
        Ok(FileInfo {
            metadata,
            has_hidden_xattrs: xattrs.has_hidden,
            target,
            xattrs: xattrs.preserved,
            other_xattrs: xattrs.others,
            data,
            address,
            is_link_destination: false,
            handle,
        })
    }

    /// Returns the data ranges of a file and its position on the device, as far as requested.
    pub(super) fn data_and_address(
        &self,
        stat: &Stat,
        details: Details,
        budget: &mut RunBudget,
        open: impl FnOnce() -> Option<OwnedFd>,
    ) -> (Option<Vec<(u64, u64)>>, Option<u64>) {
        let metadata = file_stat(stat);
        // Allocated blocks may lie beyond the end of a file or hold no data, so large files are
        // always checked.
        let few = (stat.st_blocks as u64).saturating_mul(512) < metadata.size;
        let may_have_holes = few || metadata.size > BLOCK as u64;
        let wants_data = details.holes && may_have_holes;
        let file = match metadata.kind == FileKind::File && (wants_data || details.address) {
            // An unreadable file is reported when it is read.
            true => open(),
            false => None,
        };
        let most = budget.most();
        let data = file.as_ref().filter(|_| wants_data).and_then(|file| data_runs(file, &metadata, most));
        budget.spend(data.as_ref().map_or(0, Vec::len));
        let address = file.as_ref().filter(|_| details.address).and_then(address);
        (data, address)
    }
}

/// Returns whether a symbolic link to `target`, in place of an object, would resolve to that object
/// or into it. A target that is another hard link of the same file does not count.
fn is_link_target(place: ResolvedName<'_>, target: &[u8], there: &FileStat) -> bool {
    let is_it = |metadata: FileStat| (metadata.volume, metadata.inode) == (there.volume, there.inode);
    let look = |path: &Path| {
        rustix::fs::statat(place.directory, path, AtFlags::empty()).map(|stat| file_stat(&stat))
    };
    let Ok(is_link_destination) = look(Path::new(OsStr::from_bytes(target))) else { return false };
    match there.kind {
        FileKind::Symlink => false,
        // The directory may be mounted in several places, or lie below unsearchable ones.
        FileKind::Directory => {
            let to = real_path(place.directory, target);
            let at = real_path(place.directory, place.name);
            let is_above = |above: &Path| at.as_deref() == Some(above) || look(above).is_ok_and(is_it);
            is_it(is_link_destination) || at.is_none() || to.is_none_or(|to| to.ancestors().any(is_above))
        }
        _ => {
            is_it(is_link_destination)
                && (there.links < 2
                    || real_path(place.directory, target) == real_path(place.directory, place.name))
        }
    }
}

/// Returns a path without symbolic links; none if unknown.
fn real_path(directory: BorrowedFd<'_>, path: &[u8]) -> Option<PathBuf> {
    let file = rustix::fs::openat(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    path_of_fd(&file).ok()
}
