//! Files below a root directory.

mod held;
mod open_files;
mod walk;

use held::HeldDirectory;
use numaio_machine::sysfs::{ReadError, Sysfs};
use open_files::{content, names, pass_lines, read_error, READ};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, CWD};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::io;
use std::path::Path;

/// Retries of openat2(2) if the tree changes during the call (`EAGAIN`).
const RETRIES: usize = 16;

/// Initial buffer size for a path; longer paths need another call.
const INITIAL_PATH_BYTES: usize = 256;

/// A directory below which files are read as if it were `/`.
///
/// Paths are resolved by openat2(2) with `RESOLVE_IN_ROOT`, or component by component where the
/// kernel is older than 5.6 or a sandbox forbids that call. Neither reaches files outside.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// Directory of this process's descriptors in /proc.
    files: Option<OwnedFd>,
    /// Path of the root according to /proc, without a trailing slash.
    path: Option<String>,
    openat2: bool,
}

impl Root {
    /// Opens this machine's root directory.
    ///
    /// # Errors
    /// The kernel's error, if `/` cannot be opened.
    pub fn live() -> io::Result<Self> {
        Self::open(Path::new("/"))
    }

    /// Opens a directory with a machine's files, like `lscpu --sysroot`.
    ///
    /// # Errors
    /// The kernel's error, if `dir` is not a directory or cannot be opened.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, dir, flags, Mode::empty())?;
        let openat2 = rustix::fs::openat2(&dir, ".", flags, Mode::empty(), ResolveFlags::IN_ROOT).is_ok();
        let files = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty()).ok();
        let path = files.as_ref().and_then(|files| path_of(files, &dir));
        let path = path.map(|path| path.trim_end_matches('/').to_owned());
        Ok(Self { dir, files, path, openat2 })
    }

    /// Returns the same root without openat2(2).
    #[cfg(test)]
    fn without_openat2(mut self) -> Self {
        self.openat2 = false;
        self
    }

    /// Opens a path, following links.
    pub(crate) fn open_file(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if !self.openat2 {
            return walk::walk(self.dir.as_fd(), path)?.open(flags);
        }
        if path.contains('\0') {
            return Err(Errno::NOENT);
        }
        let below = relative(path);
        for _ in 0..RETRIES {
            match rustix::fs::openat2(&self.dir, below, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Returns the canonical path by /proc/self/fd, or `None` if /proc is unusable for it.
    fn resolve_by_proc(&self, path: &str) -> Result<Option<String>, Errno> {
        let (Some(files), Some(root), true) = (&self.files, &self.path, self.openat2) else {
            return Ok(None);
        };
        let found = self.open_file(path, OFlags::PATH)?;
        let path = path_of(files, &found).filter(|path| !path.ends_with(" (deleted)"));
        let below = path.as_deref().and_then(|path| path.strip_prefix(root.as_str()));
        Ok(match below {
            Some("") => Some("/".to_owned()),
            Some(below) if below.starts_with('/') => Some(below.to_owned()),
            _ => None,
        })
    }
}

impl Sysfs for Root {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let content = self.open_file(path, READ).map_err(read_error).and_then(|file| content(path, &file));
        content.map_err(|why| ReadError::new(path, why))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        // Not O_DIRECTORY: it would hide whether the path's end or a component is not a directory.
        let names = self.open_file(path, READ).map_err(read_error).and_then(names);
        names.map_err(|why| ReadError::new(path, why))
    }

    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        let found = match self.resolve_by_proc(path) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => walk::walk(self.dir.as_fd(), path).map(|found| found.canonical()),
            Err(errno) => Err(errno),
        };
        found.map_err(|errno| ReadError::new(path, read_error(errno)))
    }

    fn lines(&self, path: &str, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let done = self.open_file(path, READ).map_err(read_error).and_then(|file| pass_lines(file, line));
        done.map_err(|why| ReadError::new(path, why))
    }

    fn hold(&self, directory: &str) -> Option<Box<dyn Sysfs + '_>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = self.openat2.then(|| self.open_file(directory, flags).ok()).flatten()?;
        Some(Box::new(HeldDirectory { root: self, dir, path: format!("{directory}/") }))
    }
}

/// Converts `path` to the relative form that openat2(2) needs.
fn relative(path: &str) -> &str {
    match path.trim_start_matches('/') {
        "" => ".",
        below => below,
    }
}

/// Returns the path of an open file by /proc/self/fd (proc_pid_fd(5)), the directory `files`.
fn path_of(files: &OwnedFd, file: &OwnedFd) -> Option<String> {
    let number = DecInt::from_fd(file);
    let path = rustix::fs::readlinkat(files, number, Vec::with_capacity(INITIAL_PATH_BYTES)).ok()?;
    path.into_string().ok().filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::sysfs::{ReadErrorKind, SysfsExt, MAX_FILE_BYTES};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A temporary directory per test, removed when dropped.
    struct TempDir(PathBuf);

    impl TempDir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("numaio-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary directory");
            Self(path)
        }

        fn at(&self, path: &str) -> PathBuf {
            let path = self.0.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            path
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn filled(name: &str) -> TempDir {
        let folder = TempDir::new(name);
        conformance::fill(|path, content| fs::write(folder.at(path), content).expect("a file"));
        conformance::fill_links(|path, target| symlink(target, folder.at(path)).expect("a link"));
        folder
    }

    /// Runs a check with openat2(2) and with the walk.
    fn with_both_resolvers(folder: &TempDir, check: impl Fn(&Root)) {
        let root = Root::open(&folder.0).expect("a root");
        check(&root);
        check(&root.without_openat2());
    }

    #[test]
    fn implementation_passes_the_conformance_test() {
        with_both_resolvers(&filled("seam"), |root| conformance::sysfs(root));
    }

    #[test]
    fn absolute_links_and_dots_stay_below_the_root() {
        let folder = filled("below");
        symlink("/proc/version", folder.at("/sys/absolute")).expect("a link");
        symlink("/etc", folder.at("/sys/etc")).expect("a link");
        with_both_resolvers(&folder, |root| {
            assert_eq!(root.text("/sys/absolute").expect("below the root"), "Linux");
            assert_eq!(root.resolve("/sys/absolute").expect("below the root"), "/proc/version");
            assert_eq!(root.read("/sys/etc/passwd").expect_err("outside").why, ReadErrorKind::Absent);
            assert_eq!(root.text("/../../../proc/version").expect("never above"), "Linux");
            assert_eq!(root.resolve("/sys/class/net/eth0/..").expect("the link's parent"), {
                "/sys/devices/pci0000:00/0000:00:03.0/net"
            });
            assert_eq!(root.list("/").expect("the root itself"), ["proc", "sys"]);
            assert_eq!(root.resolve("/sys/..").expect("the root itself"), "/");
        });
    }

    #[test]
    fn special_files_are_errors_and_never_block() {
        let folder = filled("kinds");
        rustix::fs::mkfifoat(CWD, folder.at("/sys/pipe"), Mode::RWXU).expect("a pipe");
        with_both_resolvers(&folder, |root| {
            assert_eq!(root.read("/sys/pipe").expect_err("a pipe").why, ReadErrorKind::WrongKind);
            assert_eq!(root.read("/proc/version/x").expect_err("below a file").why, ReadErrorKind::Absent);
            assert_eq!(root.list("/proc/version/x").expect_err("below a file").why, ReadErrorKind::Absent);
            assert_eq!(root.read("/proc/\0").expect_err("no path").why, ReadErrorKind::Absent);
            assert!(root.read(&"/x".repeat(40_000)).is_err());
        });
    }

    #[test]
    fn rejects_a_file_beyond_the_size_limit() {
        let folder = TempDir::new("long");
        let file = fs::File::create(folder.at("/long")).expect("a file");
        file.set_len(MAX_FILE_BYTES as u64).expect("a hole");
        with_both_resolvers(&folder, |root| {
            assert_eq!(root.read("/long").expect("at the limit").len(), MAX_FILE_BYTES)
        });
        file.set_len(MAX_FILE_BYTES as u64 + 1).expect("a hole");
        with_both_resolvers(&folder, |root| {
            assert_eq!(root.read("/long").expect_err("too long").why, ReadErrorKind::TooLong);
        });
    }

    #[test]
    fn live_root_reads_files_regardless_of_the_reported_size() {
        for root in [Root::live().expect("/"), Root::live().expect("/").without_openat2()] {
            assert!(root.text("/proc/version").expect("claims 0 bytes").starts_with("Linux"));
            let own = root.resolve("/proc/self").expect("a link");
            assert_eq!(own, format!("/proc/{}", std::process::id()));
            let online = root.text("/sys/devices/system/cpu/online").expect("claims 4096 bytes");
            assert!(online.starts_with(|c: char| c.is_ascii_digit()), "{online}");
        }
    }
}
