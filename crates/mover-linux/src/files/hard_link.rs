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

/// Attempts to link to a file that other transfers may replace at the same time.
const MAX_TRIES: usize = 8;

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
        let link = || rustix::fs::linkat(&directory, last, place.directory, place.name, AtFlags::empty());
        // The kernel finds a file that another transfer replaces before it is linked, and does not
        // link to a file without a name (vfs_link in fs/namei.c).
        (1..MAX_TRIES).fold(link(), |linked, _| if linked == Err(Errno::NOENT) { link() } else { linked })
    };
    create_or_replace(place, create).map_err(|errno| {
        let refused = fault("create hard link")(errno);
        match COMMON_ERRORS.contains(&errno) {
            true => refused,
            false => Fault { why: FaultKind::NotKept, ..refused },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Roots;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Another transfer renames new files to the name of the target.
    #[test]
    fn links_to_a_file_that_is_replaced_at_the_same_time() {
        let dir = std::env::temp_dir().join(format!("numaio-replaced-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("file"), "").expect("a file");
        let roots = Roots::open(&[&dir]).expect("a root");
        let is_over = AtomicBool::new(false);
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::write(dir.join("new"), "").expect("a file");
                    fs::rename(dir.join("new"), dir.join("file")).expect("renamed");
                }
            });
            let one = |number: u32| {
                let at = FilePath::new(0, format!("link{number}").into_bytes());
                link(&mut Resolver::new(&roots.roots, false), &at, &FilePath::new(0, *b"file"))
            };
            let failed: Vec<Fault> = (0..5_000).filter_map(|number| one(number).err()).collect();
            is_over.store(true, Ordering::Relaxed);
            failed
        });
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(failed, []);
    }
}
