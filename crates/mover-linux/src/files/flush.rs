//! Errors reported only by close(2): NFS, SMB and FUSE may accept writes, send them on close, and
//! only then detect that space is exhausted.

use super::filesystem::{is_filesystem, BTRFS, EXT, F2FS, RAMFS, TMPFS, XFS};
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use std::io;

/// File systems that report no errors on close. Flushing each of very many small files would cost
/// as much as fstat(2).
const NO_CLOSE_ERRORS: [u32; 6] = [EXT, XFS, BTRFS, F2FS, TMPFS, RAMFS];

/// Returns the volume of a directory if its file system reports no errors on close.
pub fn volume_without_close_errors(directory: &OwnedFd) -> Option<u64> {
    let volume = rustix::fs::fstat(directory).ok()?.st_dev;
    is_filesystem(directory, &NO_CLOSE_ERRORS).then_some(volume)
}

/// Flushes written data as close(2) does: not to disk, but so that errors of a quota or a server
/// are reported.
///
/// # Errors
/// I/O errors.
pub fn flush(file: impl AsFd) -> io::Result<()> {
    Ok(flush_errno(file.as_fd())?)
}

/// Closes a duplicate descriptor, since the file system flushes on every close.
pub(super) fn flush_errno(file: BorrowedFd<'_>) -> Result<(), Errno> {
    retry_on_intr(|| {
        let other = rustix::io::fcntl_dupfd_cloexec(file, 0)?.into_raw_fd();
        // SAFETY: the descriptor is exclusively owned and not used afterwards. It is closed even on
        // error.
        match unsafe { libc::close(other) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::fuse::{Volume, FLUSH};
    use super::super::roots::Roots;
    use super::*;
    use numaio_mover::port::{
        Attributes, Digest, FaultKind, FileCompletion, FilePath, FileWrite, OpenMode, Operation, Outcome,
        Part,
    };
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    #[test]
    fn file_systems_without_close_errors_are_recognized() {
        let open = |path: &Path| OwnedFd::from(File::open(path).expect("a directory"));
        assert_eq!(volume_without_close_errors(&open(Path::new("/proc"))), None);
        let here = std::env::temp_dir();
        if let Some(volume) = volume_without_close_errors(&open(&here)) {
            assert_eq!(volume, fs::metadata(&here).expect("a directory").dev());
        }
        let file = tempfile();
        flush(&file).expect("flushed");
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
    fn close_error_prevents_the_final_rename() {
        let Some(full) = Volume::mount("full", |asked, _| if asked == FLUSH { libc::ENOSPC } else { 0 })
        else {
            return;
        };
        let roots = Roots::open(&[full.path()]).expect("a root");
        let at = |name: &str| FilePath::new(0, name.as_bytes());
        let settle =
            FileCompletion { size: 3, attributes: Attributes::default(), name: at("file"), sync: false };
        for settle in [Some(settle), None] {
            let put = FileWrite {
                at: at("part"),
                begin: OpenMode::Fresh,
                held: Vec::new(),
                check: Vec::new(),
                parts: vec![Part { bytes: 0..3, offset: 0 }],
                sparse: false,
                settle,
            };
            let hash = |_: &[u8]| Digest::default();
            let operation =
                Operation::Write { puts: vec![put], data: Some(b"abc".to_vec()), hash, packed: None };
            let Outcome::Results(done) = roots.run(operation, || Some(Vec::new())) else {
                panic!("results of each")
            };
            let whys: Vec<Option<FaultKind>> =
                done.into_iter().map(|done| done.err().map(|fault| fault.why)).collect();
            assert_eq!(whys, [Some(FaultKind::NoSpace)]);
        }
    }
}
