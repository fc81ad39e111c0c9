//! Hard links.

use super::fault::fault;
use super::file_stat::file_stat;
use super::path::{ResolvedName, Resolver};
use super::temporary_file::create_or_replace;
use numaio_mover::port::{Fault, FaultKind, FilePath};
use rustix::fs::AtFlags;
use rustix::io::Errno;

/// Errors of link(2) that a copy in place of the link would get, too. All others mean that the file
/// system has no hard links (FUSE, BeeGFS, exFAT; rclone reports `EIO`), not between two mounts or
/// directories (BeeGFS, AFS), not as many (`EMLINK`), or not to files of other users
/// (`fs.protected_hardlinks`, proc_sys_fs(5)).
const COMMON_ERRORS: [Errno; 10] = [
    Errno::NOENT,
    Errno::EXIST,
    Errno::ISDIR,
    Errno::NOTDIR,
    Errno::NAMETOOLONG,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::ROFS,
    Errno::LOOP,
    Errno::ACCESS,
];

/// Creates a hard link, which replaces anything but a directory.
pub fn link(resolver: &mut Resolver<'_>, at: &FilePath, to: &FilePath) -> Result<(), Fault> {
    let target = resolver.resolve(to)?;
    target.not_the_root()?;
    let stat = |place: ResolvedName<'_>| {
        rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| file_stat(&stat))
    };
    let wanted = stat(target).map_err(fault("link to existing file"))?;
    let directory =
        target.directory.try_clone_to_owned().map_err(|error| Fault::new(FaultKind::Other, error))?;
    let last = to.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let place = resolver.resolve(at)?;
    place.not_the_root()?;
    if stat(place).is_ok_and(|there| (there.volume, there.inode) == (wanted.volume, wanted.inode)) {
        return Ok(());
    }
    let create = |place: ResolvedName<'_>| {
        rustix::fs::linkat(&directory, last, place.directory, place.name, AtFlags::empty())
    };
    create_or_replace(place, create).map_err(|errno| {
        let refused = fault("create hard link")(errno);
        match COMMON_ERRORS.contains(&errno) {
            true => refused,
            false => Fault { why: FaultKind::NotKept, ..refused },
        }
    })
}
