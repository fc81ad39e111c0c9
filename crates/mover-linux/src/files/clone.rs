//! Clones of files, which share their data (ioctl_ficlone(2)).

use super::attributes::Target;
use super::fault::fault;
use super::file_stat::file_stat;
use super::identity::same;
use super::path::Resolver;
use super::roots::Roots;
use super::temporary_file::replace_atomically;
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath, Identity, NewObject};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

impl Roots {
    /// Creates a clone of a regular file, which gets its name when it has its attributes.
    pub(super) fn clone_file(
        &self,
        resolver: &mut Resolver<'_>,
        making: &NewObject,
        from: &FilePath,
        identity: Option<&Identity>,
    ) -> Result<(), Fault> {
        let source = resolver.resolve(from)?.open(OFlags::RDONLY, Mode::empty()).map_err(fault("clone"))?;
        if file_stat(&rustix::fs::fstat(&source).map_err(fault("clone"))?).kind != FileKind::File {
            return Err(Fault::new(FaultKind::Changed, "only regular files are cloned"));
        }
        let mode_mask = self.mode_mask(resolver, &making.at, &making.attributes);
        let place = resolver.resolve(&making.at)?;
        place.not_the_root()?;
        let attributes_set = replace_atomically(place, fault("clone"), |beside| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = beside.open(flags, Mode::RUSR | Mode::WUSR).map_err(fault("clone"))?;
            rustix::fs::ioctl_ficlone(&file, &source).map_err(fault("clone"))?;
            // Verified once, after cloning, which covers the time before as well.
            identity.map_or(Ok(()), |identity| same(&source, identity))?;
            let metadata = file_stat(&rustix::fs::fstat(&file).map_err(fault("clone"))?);
            Ok(self.set(Target::Open(file.as_fd()), &metadata, &making.attributes, mode_mask))
        })?;
        // The content is correct and has its name; missing attributes are reported.
        attributes_set
    }
}
