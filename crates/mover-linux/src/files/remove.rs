//! Removal of files and directory trees.

use super::fault::fault;
use super::path::reject_short_name;
use super::path::Resolver;
use super::permissions::retry_with_permission;
use numaio_mover::port::{Fault, FaultKind, FilePath};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// Maximum number of subdirectory names kept per directory; further ones are found by listing
/// again.
const BATCH: usize = 1_024;
/// Maximum number kept in total, plus one per level.
const MAX_NAMES: usize = 65_536;

/// Removes a file or a directory tree.
pub fn remove(resolver: &mut Resolver<'_>, at: &FilePath) -> Result<(), Fault> {
    let place = match resolver.resolve_or_errno(at) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        place => place.map_err(fault("open directory"))?,
    };
    place.not_the_root()?;
    reject_short_name(place)?;
    match unlink(place.directory, place.name).map_err(fault("remove"))? {
        Unlinked::Removed => Ok(()),
        Unlinked::Directory => remove_tree(place.directory, place.name),
    }
}

/// Result of removing a name.
enum Unlinked {
    Removed,
    /// Not removed, since it is a directory.
    Directory,
}

fn unlink(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Unlinked, Errno> {
    match retry_with_permission(directory, || rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => Ok(Unlinked::Removed),
        Err(Errno::ISDIR) => Ok(Unlinked::Directory),
        Err(errno) => Err(errno),
    }
}

/// A directory on the path to the one being emptied.
struct Level {
    name: Box<[u8]>,
    /// Its volume and inode.
    identity: (u64, u64),
    /// Subdirectories to remove.
    below: Vec<Box<[u8]>>,
    /// Whether there may be more.
    more: bool,
}

/// Removes a directory tree. Only the current directory is open, so the depth is unlimited.
fn remove_tree(above: BorrowedFd<'_>, name: &[u8]) -> Result<(), Fault> {
    let failed = fault("remove");
    let Some((mut open, first)) = open_level(above, name).map_err(&failed)? else { return Ok(()) };
    let (mut levels, mut pending_names) = (vec![first], 0);
    while let Some(level) = levels.last_mut() {
        if level.below.is_empty() && level.more {
            empty_directory(&mut open, level, BATCH.min(MAX_NAMES - MAX_NAMES.min(pending_names)).max(1))
                .map_err(&failed)?;
            pending_names += level.below.len();
        }
        if let Some(name) = level.below.pop() {
            pending_names -= 1;
            let at = open.fd().map_err(&failed)?;
            if let Some((directory, level)) = open_level(at, &name).map_err(&failed)? {
                open = directory;
                levels.push(level);
            }
            continue;
        }
        if level.more {
            continue;
        }
        let name = std::mem::take(&mut level.name);
        levels.pop();
        match levels.last() {
            Some(parent) => {
                open = reopen_parent(&open, parent)?;
                remove_empty(open.fd().map_err(&failed)?, &name).map_err(&failed)?;
            }
            None => remove_empty(above, &name).map_err(&failed)?,
        }
    }
    Ok(())
}

/// Opens a directory to empty it; none if it no longer exists.
fn open_level(above: BorrowedFd<'_>, name: &[u8]) -> Result<Option<(Dir, Level)>, Errno> {
    let directory = match open(above, name) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ACCESS) => open_closed(above, name)?,
        directory => directory?,
    };
    let identity = identity(&directory)?;
    let level = Level { name: name.into(), identity, below: Vec::new(), more: true };
    Ok(Some((Dir::new(directory)?, level)))
}

/// Opens an unreadable directory of this user.
fn open_closed(above: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(above, name, flags, Mode::empty())?;
    retry_with_permission(held.as_fd(), || open(held.as_fd(), b"."))
}

/// Reopens the parent directory, and fails if the current one was moved elsewhere.
fn reopen_parent(directory: &Dir, parent: &Level) -> Result<Dir, Fault> {
    let failed = fault("remove");
    let above =
        directory.fd().and_then(|directory| retry_with_permission(directory, || open(directory, b"..")));
    let above = above.map_err(&failed)?;
    match identity(&above).map_err(&failed)? == parent.identity {
        true => Dir::new(above).map_err(failed),
        false => Err(Fault::new(FaultKind::Changed, "directory was moved during its removal")),
    }
}

fn open(above: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(directory.as_fd())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Removes all files, and collects at most `most` subdirectories.
fn empty_directory(directory: &mut Dir, level: &mut Level, most: usize) -> Result<(), Errno> {
    directory.rewind();
    level.more = false;
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if level.below.len() == most {
            level.more = true;
            break;
        }
        if let Unlinked::Directory = unlink(directory.fd()?, name)? {
            level.below.push(name.into());
        }
    }
    Ok(())
}

fn remove_empty(above: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match retry_with_permission(above, || rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("numaio-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    fn opened(path: &Path) -> OwnedFd {
        File::open(path).expect("a directory").into()
    }

    fn remove_below(folder: &Path, name: &str) -> Result<(), Fault> {
        let roots = [opened(folder)];
        remove(&mut Resolver::new(&roots, false), &FilePath::new(0, name.as_bytes()))
    }

    #[test]
    fn removes_trees_deeper_than_descriptor_and_stack_limits() {
        let folder = folder("deep");
        let depth = 3_000;
        let mut at = opened(&folder);
        for _ in 0..depth {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).expect("a directory");
            rustix::fs::symlinkat("/", &at, "link").expect("a link");
            at = open(at.as_fd(), b"d").expect("a directory");
        }
        drop(at);
        let removed = std::thread::scope(|scope| {
            let small = std::thread::Builder::new().stack_size(128 << 10);
            let remove = || remove_below(&folder, "d");
            small.spawn_scoped(scope, remove).expect("a thread").join().expect("its stack is enough")
        });
        removed.expect("removed");
        assert!(!folder.join("d").exists() && Path::new("/").exists());
        remove_below(&folder, "d").expect("nothing is there");
        fs::remove_file(folder.join("link")).expect("a link");
        fs::remove_dir(&folder).expect("nothing is left");
    }

    #[test]
    fn removes_directories_with_more_entries_than_a_batch() {
        let folder = folder("wide");
        let outside = folder.join("outside");
        fs::create_dir(&outside).expect("a directory");
        for number in 0..BATCH + 17 {
            let one = folder.join(format!("tree/{number}"));
            fs::create_dir_all(one.join("below")).expect("directories");
            fs::write(one.join("below/file"), "").expect("a file");
            symlink(&outside, one.join("link")).expect("a link");
        }
        remove_below(&folder, "tree").expect("removed");
        assert!(!folder.join("tree").exists() && outside.exists());
        fs::remove_dir(&outside).expect("removed");
        fs::remove_dir(&folder).expect("nothing is left");
    }

    #[test]
    fn directory_moved_during_removal_is_detected() {
        let folder = folder("moved");
        fs::create_dir_all(folder.join("a/b")).expect("directories");
        let root = opened(&folder);
        let (a, level) = open_level(root.as_fd(), b"a").expect("opened").expect("an entry");
        let (b, _) = open_level(a.fd().expect("open"), b"b").expect("opened").expect("an entry");
        assert!(reopen_parent(&b, &level).is_ok());
        fs::rename(folder.join("a/b"), folder.join("b")).expect("moved");
        assert_eq!(reopen_parent(&b, &level).map(|_| ()).map_err(|fault| fault.why), Err(FaultKind::Changed));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
