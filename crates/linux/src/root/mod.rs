//! Files below a root directory.

mod held;
mod walk;

use held::HeldDirectory;
use numaio_machine::sysfs::{ReadError, ReadErrorKind, Sysfs, MAX_FILE_BYTES};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, CWD};
use rustix::io::{retry_on_intr, Errno};
use rustix::path::DecInt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of the first read(2) and minimum of later ones; a sysfs attribute has at most a page.
const READ_BYTES: usize = 4 << 10;

/// Buffer size of a file that is read by lines.
const LINES_BYTES: usize = 128 << 10;

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

/// Flags to read a file or list a directory. NONBLOCK: opening a FIFO in a recorded tree would
/// block forever.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Reads the open file at a path.
fn content(path: &str, file: &OwnedFd) -> Result<Vec<u8>, ReadErrorKind> {
    // A short read of a sysfs attribute is complete. This avoids a second read(2): these reads
    // are most of the work of discovering a topology.
    let short_read_is_end = path.starts_with("/sys/");
    read_to_end(file, short_read_is_end)
}

/// Lists an open directory.
fn names(dir: OwnedFd) -> Result<Vec<String>, ReadErrorKind> {
    let mut names = Vec::new();
    for entry in Dir::new(dir).map_err(list_error)? {
        let entry = entry.map_err(list_error)?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Passes the lines of an open file.
fn pass_lines(file: OwnedFd, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadErrorKind> {
    if !is_file(&file)? {
        return Err(ReadErrorKind::WrongKind);
    }
    let mut file = BufReader::with_capacity(LINES_BYTES, File::from(file).take(MAX_FILE_BYTES as u64 + 1));
    let (mut bytes, mut text) = (0, Vec::new());
    loop {
        text.clear();
        let failed = |error| read_error(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let count = file.read_until(b'\n', &mut text).map_err(failed)?;
        bytes += count;
        if bytes > MAX_FILE_BYTES {
            return Err(ReadErrorKind::TooLong);
        }
        if count == 0 {
            return Ok(());
        }
        line(text.strip_suffix(b"\n").unwrap_or(&text));
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

/// Reads to the end, regardless of the reported size: sysfs reports 4096, proc 0. Outside of sysfs
/// a short read is not the end.
fn read_to_end(file: &OwnedFd, short_read_is_end: bool) -> Result<Vec<u8>, ReadErrorKind> {
    // Most files fit into this buffer, so that the result allocates no more than their size.
    let mut first = [0; READ_BYTES];
    let count = retry_on_intr(|| rustix::io::read(file, &mut first)).map_err(read_error)?;
    // An empty or long result may come from a FIFO or device in a recorded tree.
    if (count == 0 || count == READ_BYTES) && !is_file(file)? {
        return Err(ReadErrorKind::WrongKind);
    }
    let mut content = first[..count].to_vec();
    if count == 0 || (count < READ_BYTES && short_read_is_end) {
        return Ok(content);
    }
    loop {
        content.reserve(READ_BYTES);
        match retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut content))).map_err(read_error)? {
            0 => return Ok(content),
            _ if content.len() > MAX_FILE_BYTES => return Err(ReadErrorKind::TooLong),
            _ => {}
        }
    }
}

fn is_file(file: &OwnedFd) -> Result<bool, ReadErrorKind> {
    let state = rustix::fs::fstat(file).map_err(read_error)?;
    Ok(FileType::from_raw_mode(state.st_mode) == FileType::RegularFile)
}

fn read_error(errno: Errno) -> ReadErrorKind {
    match errno {
        // If a component is a file, the path cannot exist.
        Errno::NOENT | Errno::NOTDIR => ReadErrorKind::Absent,
        Errno::ACCESS | Errno::PERM => ReadErrorKind::Denied,
        Errno::ISDIR => ReadErrorKind::WrongKind,
        Errno::LOOP => ReadErrorKind::Failed("too many links".to_owned()),
        _ => ReadErrorKind::Failed(errno.to_string()),
    }
}

fn list_error(errno: Errno) -> ReadErrorKind {
    match errno {
        Errno::NOTDIR => ReadErrorKind::WrongKind,
        _ => read_error(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::sysfs::SysfsExt;
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
