//! Clones of files, which share their data (ioctl_ficlone(2)).

use super::attributes::Target;
use super::fault::fault;
use super::file_stat::file_stat;
use super::path::Resolver;
use super::roots::Roots;
use super::temporary_file::replace_atomically;
use numaio_mover::port::{Fault, FaultKind, FileKind, FilePath, NewObject};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

impl Roots {
    /// Creates a clone of a regular file, which gets its name when it has its attributes.
    pub(super) fn clone_file(
        &self,
        resolver: &mut Resolver<'_>,
        making: &NewObject,
        from: &FilePath,
    ) -> Result<(), Fault> {
        let source = resolver.resolve(from)?.open(OFlags::RDONLY, Mode::empty()).map_err(fault("clone"))?;
        if file_stat(&rustix::fs::fstat(&source).map_err(fault("clone"))?).kind != FileKind::File {
            return Err(Fault::new(FaultKind::Changed, "only regular files are cloned"));
        }
        let mode_mask = self.mode_mask(resolver, &making.at, &making.attributes);
        let place = resolver.resolve(&making.at)?;
        place.not_the_root()?;
        replace_atomically(place, fault("clone"), |beside| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = beside.open(flags, Mode::RUSR | Mode::WUSR).map_err(fault("clone"))?;
            rustix::fs::ioctl_ficlone(&file, &source).map_err(fault("clone"))?;
            let metadata = file_stat(&rustix::fs::fstat(&file).map_err(fault("clone"))?);
            self.set(Target::Open(file.as_fd()), &metadata, &making.attributes, mode_mask)
        })
    }
}
