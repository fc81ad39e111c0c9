//! Base of user-specified paths: the host, or a directory that they cannot leave.

use super::filesystem::{kind, EXFAT, FAT, FUSE};
use super::path::{find_below, LinkScope};
use super::permissions::grant_owner_access;
use super::roots::Roots;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, Dir, FileType, Mode, OFlags, CWD};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems without hard links.
const LINKLESS: [u32; 2] = [FAT, EXFAT];

/// Base of user-specified paths.
#[derive(Debug, Clone, Default)]
pub enum Base {
    /// Paths of this machine, without restriction.
    #[default]
    Host,
    /// Paths below a directory, which neither links nor `..` may leave.
    Below(Arc<Directory>),
}

/// Access to a directory tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Read files and directories.
    Read,
    /// Read, create, change and remove.
    Write,
}

/// A directory that is held open.
#[derive(Debug)]
pub struct Directory {
    file: OwnedFd,
    path: PathBuf,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Directory {
    /// Checks whether this process may read or create entries, by mode and file system.
    ///
    /// # Errors
    /// The I/O error that an access would cause.
    pub fn check_access(&self, rights: Rights) -> io::Result<()> {
        let access = Access::EXEC_OK
            | match rights {
                Rights::Read => Access::READ_OK,
                Rights::Write => Access::WRITE_OK,
            };
        let asked = |flags| rustix::fs::accessat(&self.file, ".", access, flags);
        match asked(AtFlags::EACCESS) {
            // Fallback for sandboxes without faccessat2(2), which matters only for capabilities
            // without root.
            Err(Errno::PERM) => Ok(asked(AtFlags::empty())?),
            asked => Ok(asked?),
        }
    }
}

impl Base {
    /// Restricts paths to a directory of this machine.
    ///
    /// # Errors
    /// I/O error if it is missing or not a directory.
    pub fn below(path: &Path) -> io::Result<Self> {
        let file = Self::Host.find(path, OFlags::DIRECTORY)?;
        Ok(Self::Below(Arc::new(Directory { file, path: path.to_owned() })))
    }

    /// Returns the base directory; none for the host.
    pub fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Host => None,
            Self::Below(directory) => Some(directory),
        }
    }

    /// Returns whether a path is a directory, or a link to one.
    pub fn is_directory(&self, path: &Path) -> bool {
        self.find(path, OFlags::DIRECTORY).is_ok()
    }

    /// As [`Base::is_directory`], but a path that cannot be looked up is not taken for missing.
    ///
    /// # Errors
    /// I/O error.
    pub fn find_directory(&self, path: &Path) -> io::Result<bool> {
        match self.find(path, OFlags::DIRECTORY) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns whether a path exists, including a dangling link.
    pub fn exists(&self, path: &Path) -> bool {
        self.kind(path).is_ok()
    }

    /// Returns whether a path is missing or not a directory; a link to a directory is not one.
    pub fn is_not_directory(&self, path: &Path) -> bool {
        self.kind(path).map_or(true, |kind| kind != FileType::Directory)
    }

    /// Returns whether a path is an empty directory, or a link to one, ignoring `lost+found` of a
    /// new file system. False for a directory that cannot be listed.
    pub fn is_empty(&self, path: &Path) -> bool {
        let list = || -> io::Result<bool> {
            let found = self.find(path, OFlags::DIRECTORY)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            for entry in Dir::new(rustix::fs::openat(&found, ".", flags, Mode::empty())?)? {
                if !matches!(entry?.file_name().to_bytes(), b"." | b".." | b"lost+found") {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        list().unwrap_or(false)
    }

    /// Returns whether files at an existing or future path can have hard links. Only FAT and exFAT
    /// are known to have none.
    pub fn has_links(&self, path: &Path) -> bool {
        self.filesystem_kind(path).is_none_or(has_links)
    }

    /// Returns whether the file system of a path may accept data in order only: whether it is FUSE.
    pub fn may_need_order(&self, path: &Path) -> bool {
        self.filesystem_kind(path) == Some(FUSE)
    }

    /// Returns the type of the file system of a path, or of the nearest directory above it.
    fn filesystem_kind(&self, path: &Path) -> Option<u32> {
        let kind = |path: &Path| kind(self.find(path, OFlags::empty()).ok()?).ok();
        path.ancestors().find_map(|path| kind(if path == Path::new("") { Path::new(".") } else { path }))
    }

    pub(super) fn kind(&self, path: &Path) -> io::Result<FileType> {
        let found = rustix::fs::fstat(self.find(path, OFlags::NOFOLLOW)?)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    /// Creates a directory whose owner has all permissions, regardless of the umask and a default
    /// ACL.
    ///
    /// # Errors
    /// I/O error; the path leaves the base.
    pub fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.make_masked(path)?;
        // File systems without modes ignore this.
        let _ = self
            .find(path, OFlags::DIRECTORY | OFlags::NOFOLLOW)
            .map(|made| grant_owner_access(made.as_fd()));
        Ok(())
    }

    fn make_masked(&self, path: &Path) -> io::Result<()> {
        let Self::Below(_) = self else { return std::fs::create_dir(path) };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let parent = self.find(parent, OFlags::DIRECTORY)?;
        Ok(rustix::fs::mkdirat(parent, name.as_bytes(), Mode::from_raw_mode(0o777))?)
    }

    /// Opens directories for a transfer.
    ///
    /// # Errors
    /// The failing path and its I/O error.
    pub fn roots(&self, paths: &[&Path]) -> Result<Roots, (PathBuf, io::Error)> {
        let open =
            |path: &&Path| self.find(path, OFlags::DIRECTORY).map_err(|error| (path.to_path_buf(), error));
        Ok(Roots::of(paths.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// Returns the path on this machine.
    pub fn on_host(&self, path: &Path) -> PathBuf {
        match self {
            Self::Host => path.to_owned(),
            Self::Below(directory) => directory.path.join(path),
        }
    }

    pub(super) fn find(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let found = match self {
            Self::Host => rustix::fs::openat(CWD, path, flags, Mode::empty()),
            Self::Below(directory) => find_below(directory.as_fd(), path.as_os_str().as_bytes(), flags),
        };
        found.map_err(|errno| match errno {
            Errno::XDEV => io::Error::other("path leaves the root directory"),
            errno => errno.into(),
        })
    }
}

impl Roots {
    /// Opens directories, following symbolic links to them.
    ///
    /// # Errors
    /// The failing path and its I/O error.
    pub fn open(paths: &[&Path]) -> Result<Self, (PathBuf, io::Error)> {
        Base::Host.roots(paths)
    }

    /// Follows all symbolic links below the roots, which were opened from this base.
    ///
    /// # Errors
    /// I/O error if the base cannot be held open.
    pub fn follow_links(&mut self, base: &Base) -> io::Result<()> {
        self.followed = Some(match base {
            Base::Host => LinkScope::Host,
            Base::Below(directory) => LinkScope::Below(directory.file.try_clone()?),
        });
        Ok(())
    }
}

fn has_links(kind: u32) -> bool {
    !LINKLESS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::super::path::walk_below;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn hard_links_are_assumed_unless_known_missing() {
        for path in ["/tmp", "/tmp/none/such", "none/such", "."] {
            assert!(Base::Host.has_links(Path::new(path)), "{path}");
        }
        assert!(has_links(0xef53) && !has_links(0x4d44) && !has_links(0x2011_bab0));
    }

    #[test]
    fn paths_cannot_leave_the_base() {
        let dir = std::env::temp_dir().join(format!("numaio-base-{}", std::process::id()));
        let (root, outside) = (dir.join("root"), dir.join("outside"));
        std::fs::create_dir_all(root.join("a/b")).expect("directories");
        std::fs::create_dir_all(&outside).expect("a directory");
        symlink(&outside, root.join("absolute")).expect("a link");
        symlink("../../outside", root.join("a/relative")).expect("a link");
        symlink("a/b", root.join("inside")).expect("a link");
        symlink("/proc/self/root", root.join("magic")).expect("a link");
        let base = Base::below(&root).expect("a root");
        let held = rustix::fs::open(&root, OFlags::PATH, Mode::empty()).expect("a root");
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        for (path, opens, walks) in [
            ("", true, true),
            (".", true, true),
            ("a//b/", true, true),
            ("./a/./b", true, true),
            ("a/../a/b", true, false),
            ("inside", true, false),
            ("..", false, false),
            ("a/../..", false, false),
            ("/", false, false),
            ("absolute", false, false),
            ("a/relative", false, false),
            ("magic", false, false),
            ("inside/../../../outside", false, false),
            ("none", false, false),
        ] {
            assert_eq!(base.is_directory(Path::new(path)), opens, "{path}");
            assert_eq!(
                walk_below(held.as_fd(), path.as_bytes(), flags).is_ok(),
                walks,
                "{path} without openat2"
            );
            assert_eq!(base.roots(&[Path::new(path)]).is_ok(), opens, "{path}");
        }
        for bad in ["../new", "absolute/new", "a/relative/new", "..", "/new", "magic/tmp/new"] {
            assert!(base.make_directory(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(base.make_directory(Path::new("a/new/")).is_ok() && root.join("a/new").is_dir());
        assert!(std::fs::read_dir(&outside).expect("a directory").next().is_none());
        let (link, out) = (Path::new("absolute"), Path::new("absolute/."));
        assert!(base.is_empty(Path::new("a/new")) && base.is_empty(Path::new("a/../a/b")));
        std::fs::create_dir(root.join("a/new/lost+found")).expect("a directory");
        assert!(base.is_empty(Path::new("a/new")) && !base.is_empty(Path::new("a")));
        assert!(!base.is_empty(Path::new("none")) && !base.is_empty(Path::new("absolute")));
        assert!(base.is_not_directory(link) && base.exists(link) && !base.exists(out));
        assert!(!base.exists(Path::new("../outside")) && !base.is_not_directory(Path::new("a")));
        assert_eq!(base.on_host(Path::new("a")), root.join("a"));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
