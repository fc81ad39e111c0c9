//! Following the symbolic links of a source. Below a base directory, no link may leave it.

use super::data_runs::RunBudget;
use super::fault::fault;
use super::file_handle::handle_hash;
use super::file_stat::file_stat;
use super::path::{reopen, LinkScope, ResolvedName};
use super::roots::Roots;
use super::xattrs::{xattrs_of_open, FoundXattrs};
use numaio_mover::port::{Details, Fault, FaultKind, FileInfo, FileKind};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

impl Roots {
    /// Collects the requested details of the target of a symbolic link.
    pub(super) fn found_target(
        &self,
        scope: &LinkScope,
        place: ResolvedName<'_>,
        details: Details,
        budget: &mut RunBudget,
    ) -> Result<FileInfo, Errno> {
        let target = scope.open(place, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&target)?;
        let xattrs = match details.xattrs {
            true => xattrs_of_open(&target, self.super_user)?,
            false => FoundXattrs::default(),
        };
        let (data, address) = self.data_and_address(&stat, details, budget, || reopen(&target)?.ok());
        let metadata = file_stat(&stat);
        let wants_handle = details.handles && metadata.kind == FileKind::Directory;
        let handle = wants_handle.then(|| handle_hash(&target, b"")).flatten();
        let (target, is_link_destination) = (None, false);
        Ok(FileInfo {
            metadata,
            has_hidden_xattrs: xattrs.has_hidden,
            target,
            xattrs: xattrs.preserved,
            other_xattrs: xattrs.others,
            data,
            address,
            is_link_destination,
            handle,
        })
    }

    /// Returns the fault of a symbolic link that cannot be followed; `None` if the object is not a
    /// link or links are not followed.
    pub(super) fn broken_link(&self, place: ResolvedName<'_>, errno: Errno) -> Option<Fault> {
        self.followed.as_ref()?;
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if file_stat(&stat).kind != FileKind::Symlink {
            return None;
        }
        Some(match errno {
            Errno::NOENT | Errno::NOTDIR => {
                Fault::new(FaultKind::NotFound, "the target of this symbolic link does not exist")
            }
            Errno::LOOP => Fault::new(FaultKind::Link, "this symbolic link is part of a loop"),
            Errno::XDEV => Fault::new(FaultKind::Link, "this symbolic link leads out of the root directory"),
            errno => fault("follow symbolic link")(errno),
        })
    }
}
