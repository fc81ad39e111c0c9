//! What a file system says only when a file is closed (close(2)): NFS, SMB and FUSE may take what is written, send it then, and
//! learn then that there is no room for it.

use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use std::io;

/// File systems (statfs(2)) that say nothing then: ext2 to ext4, XFS, Btrfs, f2fs, tmpfs, ramfs. Small files come by the ten
/// thousand, and for each the question takes as long as what is known of it (fstat(2)).
const SILENT: [u32; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x8584_58f6];

/// The volume of a directory, if nothing is said when a file of it is closed.
pub fn silent_volume(directory: &OwnedFd) -> Option<u64> {
    let kind = rustix::fs::fstatfs(directory).ok()?.f_type as u32;
    let volume = rustix::fs::fstat(directory).ok()?.st_dev;
    SILENT.contains(&kind).then_some(volume)
}

/// Waits until the file system took what was written to a file, as far as close(2) does: it is not on disk then, but no error of
/// a quota or of a server is left that nobody would hear of.
///
/// # Errors
/// The kernel's.
pub fn flush(file: impl AsFd) -> io::Result<()> {
    Ok(flushed(file.as_fd())?)
}

/// By a second descriptor, as the file system is asked whenever one of a file is closed.
pub(super) fn flushed(file: BorrowedFd<'_>) -> Result<(), Errno> {
    retry_on_intr(|| {
        let other = rustix::io::fcntl_dupfd_cloexec(file, 0)?.into_raw_fd();
        // SAFETY: nobody else has the descriptor, and it is used no more. It is closed even if that fails.
        match unsafe { libc::close(other) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::Roots;
    use super::*;
    use numaio_machine::port::{
        Attributes, Begin, Digest, FilePath, Operation, Outcome, Part, Put, Settle, Why,
    };
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    #[test]
    fn volumes_that_say_nothing_are_known_by_their_kind() {
        let open = |path: &Path| OwnedFd::from(File::open(path).expect("a directory"));
        assert_eq!(silent_volume(&open(Path::new("/proc"))), None);
        let here = std::env::temp_dir();
        if let Some(volume) = silent_volume(&open(&here)) {
            assert_eq!(volume, fs::metadata(&here).expect("a directory").dev());
        }
        let file = tempfile();
        flush(&file).expect("nothing is said");
        assert!(file.metadata().is_ok(), "it is still open");
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("numaio-close-{}", std::process::id()));
        let mut file = File::create_new(&path).expect("a file");
        file.write_all(b"x").expect("written");
        fs::remove_file(path).expect("removed");
        file
    }

    /// A file system of one directory (Documentation/filesystems/fuse, include/uapi/linux/fuse.h) that takes whatever is written, and
    /// says when a file is closed that there was no room. Unmounted when dropped.
    struct Full(PathBuf);

    const LOOKUP: u32 = 1;
    const FORGET: u32 = 2;
    const GETATTR: u32 = 3;
    const UNLINK: u32 = 10;
    const WRITE: u32 = 16;
    const RELEASE: u32 = 18;
    const FLUSH: u32 = 25;
    const INIT: u32 = 26;
    const CREATE: u32 = 35;

    impl Full {
        /// None where it may not be mounted.
        fn mount(path: PathBuf) -> Option<Self> {
            let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
            fs::create_dir(&path).ok()?;
            let options = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
            let target = [path.as_os_str().as_bytes(), b"\0"].concat();
            // SAFETY: all are strings that end with a zero byte, and live as long as the call.
            let done = unsafe {
                libc::mount(
                    c"numaio".as_ptr(),
                    target.as_ptr().cast(),
                    c"fuse".as_ptr(),
                    libc::MS_NODEV | libc::MS_NOSUID,
                    options.as_ptr().cast(),
                )
            };
            let mounted = Self(path);
            std::thread::spawn(move || answer(device));
            (done == 0).then_some(mounted)
        }
    }

    impl Drop for Full {
        fn drop(&mut self) {
            let target = [self.0.as_os_str().as_bytes(), b"\0"].concat();
            // SAFETY: a string that ends with a zero byte.
            unsafe { libc::umount2(target.as_ptr().cast(), libc::MNT_DETACH) };
            fs::remove_dir(&self.0).expect("removed");
        }
    }

    /// Answers the kernel until the file system is gone.
    fn answer(mut device: File) {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(length) = device.read(&mut buffer) {
            let number = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
            let (opcode, node, unique) = (number(4), number(16), &buffer[8..16]);
            assert!(length >= 40, "a header");
            let (error, body) = match opcode {
                // Version 7.12, of which little more than that has to be said.
                INIT => (0, [7u32, 12, 0, 0, 0, 1 << 16].map(u32::to_ne_bytes).concat()),
                FORGET => continue,
                GETATTR => (0, [vec![0; 16], attributes(node)].concat()),
                LOOKUP => (libc::ENOENT, Vec::new()),
                CREATE => {
                    let node = [2u32, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
                    (0, [node, attributes(2), vec![0; 16]].concat())
                }
                WRITE => (0, [number(56), 0].map(u32::to_ne_bytes).concat()),
                FLUSH => (libc::ENOSPC, Vec::new()),
                RELEASE | UNLINK => (0, Vec::new()),
                _ => (libc::ENOSYS, Vec::new()),
            };
            let (total, error) = ((16 + body.len() as u32).to_ne_bytes(), (-error).to_ne_bytes());
            if device.write_all(&[&total[..], &error, unique, &body].concat()).is_err() {
                return;
            }
        }
    }

    /// `struct fuse_attr`: the directory, which is node 1, or a file.
    fn attributes(node: u32) -> Vec<u8> {
        let mut words = [0u32; 22];
        words[0] = node;
        words[15] = if node == 1 { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o600 };
        words[16] = 1;
        words.map(u32::to_ne_bytes).concat()
    }

    #[test]
    fn a_file_that_is_lost_when_it_is_closed_does_not_get_its_name() {
        let path = std::env::temp_dir().join(format!("numaio-full-{}", std::process::id()));
        let Some(full) = Full::mount(path.clone()) else {
            fs::remove_dir(&path).ok();
            crate::tests::tell("skipped: no file system of our own may be mounted");
            return;
        };
        let roots = Roots::open(&[&full.0]).expect("a root");
        let at = |name: &str| FilePath::new(0, name.as_bytes());
        let settle = Settle { size: 3, attributes: Attributes::default(), name: at("file"), sync: false };
        for settle in [Some(settle), None] {
            let put = Put {
                at: at("part"),
                begin: Begin::Fresh,
                check: Vec::new(),
                parts: vec![Part { bytes: 0..3, offset: 0 }],
                sparse: false,
                settle,
            };
            let hash = |_: &[u8]| Digest::default();
            let operation =
                Operation::Write { puts: vec![put], data: Some(b"abc".to_vec()), hash, packed: None };
            let Outcome::Each(done) = roots.run(operation, || Some(Vec::new())) else {
                panic!("results of each")
            };
            let whys: Vec<Option<Why>> =
                done.into_iter().map(|done| done.err().map(|fault| fault.why)).collect();
            assert_eq!(whys, [Some(Why::NoSpace)]);
        }
    }
}
