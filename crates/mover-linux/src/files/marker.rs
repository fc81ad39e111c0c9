//! Markers: files by which a side recognizes a directory of the other one, whatever path, mount or
//! host it is reached by.

use super::base::Base;
use super::directory_time::DirectoryTime;
use super::proc::path_of_fd;
use super::temporary_file::close_before_removal;
use numaio_linux::process;
use numaio_mover::sink::is_marker;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum entries of a directory that are examined for markers of killed transfers.
const MAX_ENTRIES: usize = 4_096;
/// Age at which a marker is obsolete on a file system without locks.
const OBSOLETE_AGE: Duration = Duration::from_secs(600);

/// A file that marks a directory until it is dropped. The directory keeps its time.
#[derive(Debug)]
pub struct Marker {
    directory: OwnedFd,
    name: Vec<u8>,
    /// Its lock shows other transfers that this process is alive.
    file: Option<OwnedFd>,
}

impl Marker {
    /// Checks that nothing has removed the file since it was created.
    ///
    /// # Errors
    /// I/O error, which is [`ErrorKind::NotFound`] if it was removed.
    pub fn check(&self) -> io::Result<()> {
        rustix::fs::statat(&self.directory, &self.name[..], AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.file.take().into_iter().for_each(close_before_removal);
        let _time = DirectoryTime::of(&self.directory);
        let _ = rustix::fs::unlinkat(&self.directory, &self.name[..], AtFlags::empty());
    }
}

impl Base {
    /// Creates a marker in a directory, and removes those of killed transfers.
    ///
    /// # Errors
    /// I/O error.
    pub fn mark(&self, directory: &Path, name: Vec<u8>) -> io::Result<Marker> {
        let directory = self.find(directory, OFlags::DIRECTORY)?;
        let time = DirectoryTime::of(&directory)?;
        remove_obsolete(&directory);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &name[..], flags, Mode::RUSR | Mode::WUSR)?;
        // Without locks, other transfers go by its age.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        drop(time);
        Ok(Marker { directory, name, file: Some(file) })
    }

    /// Returns whether a marker leaves a directory with its time, which only its owner may set.
    pub fn keeps_time_when_marked(&self, directory: &Path) -> bool {
        let owner = || rustix::fs::fstat(self.find(directory, OFlags::DIRECTORY).ok()?).ok();
        process::is_super_user() || owner().is_some_and(|found| found.st_uid == process::user())
    }

    /// Returns the path from the directory that has a marker to a directory that is or is in it;
    /// `None` if neither the directory nor a known one above it has the marker.
    ///
    /// # Errors
    /// I/O error if it is unknown whether the directory has the marker.
    pub fn path_from_marked(&self, directory: &Path, marker: &[u8]) -> io::Result<Option<PathBuf>> {
        let marker = Path::new(OsStr::from_bytes(marker));
        match self.kind(&directory.join(marker)) {
            Ok(_) => return Ok(Some(PathBuf::new())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
        let Some(real) = self.real_path(directory) else { return Ok(None) };
        let above = real.ancestors().skip(1).find(|above| self.exists(&above.join(marker)));
        Ok(above.and_then(|above| real.strip_prefix(above).ok()).map(Path::to_owned))
    }

    /// Returns the path of a directory below this base, without symbolic links; `None` if unknown.
    fn real_path(&self, directory: &Path) -> Option<PathBuf> {
        let real = |path: &Path| path_of_fd(&self.find(path, OFlags::DIRECTORY).ok()?).ok();
        match self.directory() {
            None => real(directory),
            Some(_) => Some(real(directory)?.strip_prefix(real(Path::new(""))?).ok()?.to_owned()),
        }
    }
}

/// Removes the markers of killed transfers.
fn remove_obsolete(directory: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty()).and_then(Dir::new);
    for entry in opened.into_iter().flatten().take(MAX_ENTRIES).map_while(Result::ok) {
        let name = entry.file_name();
        if is_marker(name.to_bytes()) && is_obsolete(directory, name.to_bytes()).unwrap_or(false) {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
    }
}

/// Returns whether the transfer that created a marker has ended. Other users' markers cannot be
/// opened.
fn is_obsolete(directory: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(_) => {
            let written = rustix::fs::fstat(&file)?.st_mtime.max(0) as u64;
            let age = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            Ok(age > Duration::from_secs(written) + OBSOLETE_AGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::sink::{marker_name, MarkedDirectory};
    use numaio_mover::wire::TransferId;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn name(transfer: u8) -> Vec<u8> {
        marker_name(TransferId([transfer; 16]), MarkedDirectory::Destination)
    }

    #[test]
    fn marked_directory_is_found_from_below() {
        let dir = std::env::temp_dir().join(format!("numaio-marker-{}", std::process::id()));
        fs::create_dir_all(dir.join("root/a/b")).expect("directories");
        std::os::unix::fs::symlink("a/b", dir.join("root/link")).expect("a link");
        let time = || fs::metadata(dir.join("root/a")).map(|found| (found.mtime(), found.mtime_nsec())).ok();
        let before = time();
        for (base, root) in [
            (Base::Host, dir.join("root")),
            (Base::below(&dir.join("root")).expect("a root"), PathBuf::new()),
        ] {
            let marker = base.mark(&root.join("a"), name(1)).expect("a marker");
            let from =
                |path: &str, by: u8| base.path_from_marked(&root.join(path), &name(by)).expect("a path");
            assert_eq!(from("a", 1), Some(PathBuf::new()));
            assert_eq!(from("a/b", 1), Some(PathBuf::from("b")));
            assert_eq!(from("link/../b", 1), Some(PathBuf::from("b")));
            assert_eq!((from("", 1), from("a", 2), from("none", 1)), (None, None, None));
            assert_eq!(time(), before);
            assert!(marker.check().is_ok());
            drop(marker);
            assert_eq!((from("a", 1), time()), (None, before));
        }
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn next_marker_replaces_those_of_killed_transfers() {
        let dir = std::env::temp_dir().join(format!("numaio-obsolete-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let path = |transfer| dir.join(OsStr::from_bytes(&name(transfer)));
        fs::write(path(1), "").expect("a marker of a killed transfer");
        fs::write(dir.join(".numaio-marker-other"), "").expect("a file");
        let running = Base::Host.mark(&dir, name(2)).expect("a marker");
        assert!(!path(1).exists() && path(2).exists());
        let next = Base::Host.mark(&dir, name(3)).expect("a marker");
        assert!(path(2).exists() && path(3).exists());
        fs::remove_file(path(2)).expect("removed");
        assert!(running.check().is_err() && next.check().is_ok());
        drop((running, next));
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 1);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
