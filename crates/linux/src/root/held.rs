//! A directory that is held open while files below it are read.

use super::open_files::{content, names, read_error, READ};
use numaio_machine::sysfs::{ReadError, ReadErrorKind, Sysfs};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A root with one directory held open: the kernel resolves paths below it from there.
///
/// A device has a dozen files below eight directories, and most of the time of opening a file is
/// the resolution of its path.
pub(super) struct HeldDirectory<'a> {
    /// Reads all other paths.
    pub root: &'a dyn Sysfs,
    /// The directory, opened as a path.
    pub dir: OwnedFd,
    /// Its path, with a slash at the end.
    pub path: String,
}

impl HeldDirectory<'_> {
    /// Opens a file below the directory; `None` if it is elsewhere or behind a link.
    fn open_below(&self, path: &str) -> Option<Result<OwnedFd, ReadErrorKind>> {
        let below = self.below(path)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.dir, below, READ | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::LOOP | Errno::XDEV | Errno::AGAIN | Errno::INTR) => None,
            result => Some(result.map_err(read_error)),
        }
    }

    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.path.as_str())?;
        (!below.is_empty() && !below.starts_with('/') && !below.contains('\0')).then_some(below)
    }

    /// Returns the last component of the target of a link directly in the directory.
    fn target_name(&self, path: &str) -> Result<Option<String>, Errno> {
        let Some(name) = self.below(path).filter(|below| !below.contains('/')) else { return Ok(None) };
        let target = rustix::fs::readlinkat(&self.dir, name, Vec::with_capacity(READLINK_BYTES))?;
        let name = target.to_str().ok().and_then(|target| target.rsplit('/').next());
        Ok(name.filter(|name| !["", ".", ".."].contains(name)).map(str::to_owned))
    }
}

/// Initial buffer size for the target of a link; longer targets need another call.
const READLINK_BYTES: usize = 256;

impl Sysfs for HeldDirectory<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let Some(file) = self.open_below(path) else { return self.root.read(path) };
        file.and_then(|file| content(path, &file)).map_err(|why| ReadError::new(path, why))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let Some(dir) = self.open_below(path) else { return self.root.list(path) };
        dir.and_then(names).map_err(|why| ReadError::new(path, why))
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.root.resolve(path)
    }

    fn link_name(&self, path: &str) -> Result<String, ReadError> {
        match self.target_name(path) {
            Ok(Some(name)) => Ok(name),
            Err(Errno::NOENT) => Err(ReadError::new(path, read_error(Errno::NOENT))),
            // It is no link, or its end is unknown.
            Ok(None) | Err(_) => self.root.link_name(path),
        }
    }
}
