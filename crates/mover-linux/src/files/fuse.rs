//! A FUSE file system with scripted errors (Documentation/filesystems/fuse,
//! include/uapi/linux/fuse.h).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Look up a name (`FUSE_LOOKUP`).
pub const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
/// Get attributes (`FUSE_GETATTR`).
pub const GETATTR: u32 = 3;
/// Set attributes (`FUSE_SETATTR`).
pub const SETATTR: u32 = 4;
const UNLINK: u32 = 10;
/// Write (`FUSE_WRITE`).
pub const WRITE: u32 = 16;
const RELEASE: u32 = 18;
/// Sync (`FUSE_FSYNC`).
pub const FSYNC: u32 = 20;
/// Flush on close (`FUSE_FLUSH`).
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
/// Open a directory (`FUSE_OPENDIR`).
pub const OPENDIR: u32 = 27;
/// Read a directory (`FUSE_READDIR`).
pub const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
/// Create a file (`FUSE_CREATE`).
pub const CREATE: u32 = 35;

/// Mode, among the attributes that [`SETATTR`] sets (`FATTR_MODE`).
pub const MODE: u32 = 1;
/// Modification time (`FATTR_MTIME`).
pub const TIME: u32 = 1 << 5;

/// A directory in the root, which has [`NAMES`].
pub const DIRECTORY: &str = "directory";
/// The empty files in [`DIRECTORY`].
pub const NAMES: [&str; 2] = ["first", "second"];
/// Node number of [`DIRECTORY`].
pub const DIRECTORY_NODE: u32 = 3;

/// Requests received, and their [argument](argument).
type RequestLog = Arc<Mutex<Vec<(u32, u32)>>>;

/// A file system that accepts all writes; unmounted on drop.
pub struct Volume {
    path: PathBuf,
    requests: RequestLog,
}

impl Volume {
    /// Mounts the file system; none, with a message, where mounting is not permitted.
    ///
    /// `errors` returns the error of a request with an [argument](argument); 0 for success.
    pub fn mount(name: &str, errors: impl Fn(u32, u32) -> i32 + Send + 'static) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("numaio-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        let (mounted, requests) = (mount(&path), RequestLog::default());
        let Some(device) = mounted else {
            fs::remove_dir(&path).expect("removed");
            crate::test_support::print_skipped("skipped: FUSE: cannot be mounted");
            return None;
        };
        let log = requests.clone();
        std::thread::spawn(move || answer(device, errors, &log));
        Some(Self { path, requests })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns requests of the given kinds in order, with their arguments.
    pub fn requests(&self, of: &[u32]) -> Vec<(u32, u32)> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().copied().filter(|(requests, _)| of.contains(requests)).collect()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let target = [self.path.as_os_str().as_bytes(), b"\0"].concat();
        // SAFETY: a zero-terminated string.
        unsafe { libc::umount2(target.as_ptr().cast(), libc::MNT_DETACH) };
        fs::remove_dir(&self.path).expect("removed");
    }
}

fn mount(path: &Path) -> Option<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
    let target = [path.as_os_str().as_bytes(), b"\0"].concat();
    // SAFETY: zero-terminated strings that live through the call.
    let done = unsafe {
        libc::mount(
            c"numaio".as_ptr(),
            target.as_ptr().cast(),
            c"fuse".as_ptr(),
            libc::MS_NODEV | libc::MS_NOSUID,
            options.as_ptr().cast(),
        )
    };
    (done == 0).then_some(device)
}

/// Answers requests until the file system is unmounted.
fn answer(mut device: File, errors: impl Fn(u32, u32) -> i32, requests: &RequestLog) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length) = device.read(&mut buffer) {
        let number = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
        let (opcode, node, unique) = (number(4), number(16), &buffer[8..16]);
        assert!(length >= 40, "a header");
        let argument = argument(opcode, &buffer);
        requests.lock().unwrap_or_else(PoisonError::into_inner).push((opcode, argument));
        let body = match opcode {
            // Version 7.12, the minimal reply.
            INIT => Ok([7u32, 12, 0, 0, 0, 1 << 16].map(u32::to_ne_bytes).concat()),
            FORGET => continue,
            GETATTR | SETATTR => Ok([vec![0; 16], attributes(node)].concat()),
            LOOKUP => node_of(node, &buffer[40..length - 1]).map(entry).ok_or(libc::ENOENT),
            READDIR if node == DIRECTORY_NODE => Ok(directory_entry(argument)),
            READDIR => Ok(Vec::new()),
            CREATE => Ok([entry(2), vec![0; 16]].concat()),
            WRITE => Ok([number(56), 0].map(u32::to_ne_bytes).concat()),
            OPENDIR => Ok(vec![0; 16]),
            FLUSH | FSYNC | RELEASE | RELEASEDIR | UNLINK => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let error = errors(opcode, argument);
        let body = if error == 0 { body } else { Err(error) };
        let (error, body) = body.map_or_else(|error| (error, Vec::new()), |body| (0, body));
        let (total, error) = ((16 + body.len() as u32).to_ne_bytes(), (-error).to_ne_bytes());
        if device.write_all(&[&total[..], &error, unique, &body].concat()).is_err() {
            return;
        }
    }
}

/// Returns the attributes that [`SETATTR`] sets, the directory of a [`LOOKUP`], or the offset of a
/// [`READDIR`]; 0 for others.
fn argument(opcode: u32, request: &[u8]) -> u32 {
    let at = match opcode {
        SETATTR => 40,
        LOOKUP => 16,
        READDIR => 48,
        _ => return 0,
    };
    u32::from_ne_bytes(request[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the node with a name in a directory.
fn node_of(directory: u32, name: &[u8]) -> Option<u32> {
    let position = NAMES.iter().position(|known| known.as_bytes() == name);
    match directory {
        1 => (name == DIRECTORY.as_bytes()).then_some(DIRECTORY_NODE),
        _ => position.map(|position| DIRECTORY_NODE + 1 + position as u32),
    }
}

/// Returns the `struct fuse_dirent` after an offset in [`DIRECTORY`], one in each reply.
fn directory_entry(offset: u32) -> Vec<u8> {
    let Some(name) = NAMES.get(offset as usize) else { return Vec::new() };
    let head = [DIRECTORY_NODE + 1 + offset, 0, offset + 1, 0, name.len() as u32, 8];
    let mut bytes = [head.map(u32::to_ne_bytes).concat(), name.as_bytes().to_vec()].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Returns `struct fuse_entry_out` of a node, which the kernel does not keep.
fn entry(node: u32) -> Vec<u8> {
    let head = [node, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
    [head, attributes(node)].concat()
}

/// Returns `struct fuse_attr` of a directory or a file.
fn attributes(node: u32) -> Vec<u8> {
    let mut words = [0u32; 22];
    words[0] = node;
    let is_directory = [1, DIRECTORY_NODE].contains(&node);
    words[15] = if is_directory { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
    words[16] = 1;
    words.map(u32::to_ne_bytes).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Roots;
    use numaio_mover::port::{
        Attributes, Digest, Fault, FileCompletion, FilePath, FileWrite, OpenMode, Operation, Outcome, Part,
        Stamp,
    };

    /// Writes a file of three bytes in place.
    fn write_in_place(volume: &Volume, masked: bool, sync: bool) -> Result<(), Fault> {
        let roots = Roots::open(&[volume.path()]).expect("a root");
        let at = FilePath::new(0, *b"file");
        let mtime = Some(Stamp { seconds: 5, nanoseconds: 6 });
        let attributes = Attributes { mode: Some(0o644), masked, mtime, ..Attributes::default() };
        let put = FileWrite {
            parts: vec![Part { bytes: 0..3, offset: 0 }],
            settle: Some(FileCompletion { size: 3, attributes, name: at.clone(), sync }),
            ..FileWrite::new(at, OpenMode::InPlace)
        };
        let hash = |_: &[u8]| Digest::default();
        let operation = Operation::Write { puts: vec![put], data: Some(b"abc".to_vec()), hash, packed: None };
        match roots.run(operation, || None) {
            Outcome::Results(mut done) => done.pop().expect("a result"),
            _ => panic!("results of each"),
        }
    }

    #[test]
    fn in_place_data_is_durable_before_its_time_is_set() {
        let Some(volume) = Volume::mount("in-place", |_, _| 0) else { return };
        write_in_place(&volume, true, true).expect("a file");
        let requests = volume.requests(&[WRITE, FSYNC, SETATTR]);
        let requests: Vec<u32> = requests
            .iter()
            .filter(|(op, sets)| *op != SETATTR || sets & TIME != 0)
            .map(|(op, _)| *op)
            .collect();
        let written = requests.iter().position(|requests| *requests == WRITE).expect("it is written");
        assert_eq!(requests[written..], [WRITE, FSYNC, SETATTR, FSYNC]);
    }

    #[test]
    fn default_mode_is_optional_on_file_systems_without_modes() {
        let refuse: [fn(u32, u32) -> i32; 3] = [
            |request, sets| if request == SETATTR && sets & MODE != 0 { libc::EPERM } else { 0 },
            |request, sets| if request == SETATTR && sets & MODE != 0 { libc::EOPNOTSUPP } else { 0 },
            |request, sets| if request == SETATTR && sets & MODE != 0 { libc::ENOSYS } else { 0 },
        ];
        for errors in refuse {
            let Some(volume) = Volume::mount("modes", errors) else { return };
            write_in_place(&volume, true, false).expect("a file");
            assert!(volume.requests(&[SETATTR]).iter().any(|(_, sets)| sets & TIME != 0));
            assert!(write_in_place(&volume, false, false).is_err(), "this mode was asked for");
        }
    }

    /// Otherwise errors already reported to another process are missed (syncfs(2)).
    #[test]
    fn write_errors_are_tracked_from_the_start() {
        let Some(volume) = Volume::mount("heeded", |_, _| 0) else { return };
        let mut roots = Roots::open(&[volume.path()]).expect("a root");
        roots.track_write_errors();
        let opened = volume.requests(&[OPENDIR]).len();
        roots.sync(0).expect("durable");
        assert_eq!((opened, volume.requests(&[OPENDIR]).len()), (1, 1));
    }
}
