//! What a file system says only when a file is closed (close(2)): NFS, SMB and FUSE may take what is written, send it then, and
//! learn then that there is no room for it.

use super::filesystem::{is_filesystem, BTRFS, EXT, F2FS, RAMFS, TMPFS, XFS};
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use std::io;

/// File systems that say nothing then. Small files come by the ten thousand, and for each the question takes as long as what is known
/// of it (fstat(2)).
const NO_CLOSE_ERRORS: [u32; 6] = [EXT, XFS, BTRFS, F2FS, TMPFS, RAMFS];

/// The volume of a directory, if nothing is said when a file of it is closed.
pub fn volume_without_close_errors(directory: &OwnedFd) -> Option<u64> {
    let volume = rustix::fs::fstat(directory).ok()?.st_dev;
    is_filesystem(directory, &NO_CLOSE_ERRORS).then_some(volume)
}

/// Waits until the file system took what was written to a file, as far as close(2) does: it is not on disk then, but no error of
/// a quota or of a server is left that nobody would hear of.
///
/// # Errors
/// The kernel's.
pub fn flush(file: impl AsFd) -> io::Result<()> {
    Ok(flush_errno(file.as_fd())?)
}

/// By a second descriptor, as the file system is asked whenever one of a file is closed.
pub(super) fn flush_errno(file: BorrowedFd<'_>) -> Result<(), Errno> {
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
    use super::super::fuse::{Volume, FLUSH};
    use super::super::Roots;
    use super::*;
    use numaio_machine::port::{
        Attributes, Begin, Digest, FilePath, Operation, Outcome, Part, Put, Settle, Why,
    };
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    #[test]
    fn volumes_that_say_nothing_are_known_by_their_kind() {
        let open = |path: &Path| OwnedFd::from(File::open(path).expect("a directory"));
        assert_eq!(volume_without_close_errors(&open(Path::new("/proc"))), None);
        let here = std::env::temp_dir();
        if let Some(volume) = volume_without_close_errors(&open(&here)) {
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

    #[test]
    fn a_file_that_is_lost_when_it_is_closed_does_not_get_its_name() {
        let Some(full) = Volume::mount("full", |asked, _| if asked == FLUSH { libc::ENOSPC } else { 0 })
        else {
            return;
        };
        let roots = Roots::open(&[full.path()]).expect("a root");
        let at = |name: &str| FilePath::new(0, name.as_bytes());
        let settle = Settle { size: 3, attributes: Attributes::default(), name: at("file"), sync: false };
        for settle in [Some(settle), None] {
            let put = Put {
                at: at("part"),
                begin: Begin::Fresh,
                held: Vec::new(),
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
