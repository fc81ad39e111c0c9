//! A FUSE file system of one directory with scripted errors (Documentation/filesystems/fuse,
//! include/uapi/linux/fuse.h).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
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
const RELEASEDIR: u32 = 29;
const CREATE: u32 = 35;

/// Mode, among the attributes that [`SETATTR`] sets (`FATTR_MODE`).
pub const MODE: u32 = 1;
/// Modification time (`FATTR_MTIME`).
pub const TIME: u32 = 1 << 5;

/// Returns the error of a request; 0 for success.
type Errors = fn(requests: u32, sets: u32) -> i32;

/// Requests received, and the attributes that they set.
type RequestLog = Arc<Mutex<Vec<(u32, u32)>>>;

/// A file system that accepts all writes; unmounted on drop.
pub struct Volume {
    path: PathBuf,
    requests: RequestLog,
}

impl Volume {
    /// Mounts the file system; none, with a message, where mounting is not permitted.
    pub fn mount(name: &str, errors: Errors) -> Option<Self> {
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

    /// Returns requests of the given kinds in order, with the attributes that they set.
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
fn answer(mut device: File, errors: Errors, requests: &RequestLog) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length) = device.read(&mut buffer) {
        let number = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
        let (opcode, node, unique) = (number(4), number(16), &buffer[8..16]);
        assert!(length >= 40, "a header");
        let sets = if opcode == SETATTR { number(40) } else { 0 };
        requests.lock().unwrap_or_else(PoisonError::into_inner).push((opcode, sets));
        let body = match opcode {
            // Version 7.12, the minimal reply.
            INIT => Ok([7u32, 12, 0, 0, 0, 1 << 16].map(u32::to_ne_bytes).concat()),
            FORGET => continue,
            GETATTR | SETATTR => Ok([vec![0; 16], attributes(node)].concat()),
            LOOKUP => Err(libc::ENOENT),
            CREATE => {
                let node = [2u32, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
                Ok([node, attributes(2), vec![0; 16]].concat())
            }
            WRITE => Ok([number(56), 0].map(u32::to_ne_bytes).concat()),
            OPENDIR => Ok(vec![0; 16]),
            FLUSH | FSYNC | RELEASE | RELEASEDIR | UNLINK => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let error = errors(opcode, sets);
        let body = if error == 0 { body } else { Err(error) };
        let (error, body) = body.map_or_else(|error| (error, Vec::new()), |body| (0, body));
        let (total, error) = ((16 + body.len() as u32).to_ne_bytes(), (-error).to_ne_bytes());
        if device.write_all(&[&total[..], &error, unique, &body].concat()).is_err() {
            return;
        }
    }
}

/// Returns `struct fuse_attr` of the directory (node 1) or a file.
fn attributes(node: u32) -> Vec<u8> {
    let mut words = [0u32; 22];
    words[0] = node;
    words[15] = if node == 1 { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
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
        let refuse: [Errors; 3] = [
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
