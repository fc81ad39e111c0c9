//! Direct I/O for blocks of large files (open(2), `O_DIRECT`).
//!
//! The device moves a block to or from the buffer, without a CPU copy and without page cache pages.
//! Whatever direct I/O cannot move (a file system without support, an unaligned tail) goes through
//! the cache.

use crate::files::fault::fault;
use crate::files::filesystem::{is_filesystem, OVERLAYFS};
use crate::files::roots::DirectIo;
use numaio_mover::port::Fault;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Advice, OFlags};
use rustix::io::{retry_on_intr, Errno, ReadWriteFlags};
use std::io::IoSliceMut;

/// Minimum size of files read directly, in bytes. Readahead serves smaller ones as well.
const READ_FROM: u64 = 64 << 20;
/// Alignment of addresses, offsets and lengths in bytes; no known device needs more.
const ALIGNED: usize = 4_096;
/// `__NR_cachestat`, on all architectures (include/uapi/asm-generic/unistd.h).
const CACHESTAT: libc::c_long = 451;

/// Switches a file to direct I/O. Sets `O_DIRECT` as the only flag: with `O_NONBLOCK`, used for
/// opening, a ring would fail instead of waiting.
pub fn enable(file: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(file, OFlags::DIRECT)
}

/// Switches a file to the page cache.
pub fn disable(file: &OwnedFd) -> Result<(), Fault> {
    rustix::fs::fcntl_setfl(file, OFlags::empty()).map_err(fault("disable direct I/O"))
}

/// Returns whether to read a part directly: by default not if the file is small or the part is
/// cached.
pub fn reads_direct(direct: DirectIo, file: &OwnedFd, target: &[u8], offset: u64, size: u64) -> bool {
    match direct {
        DirectIo::Auto => size >= READ_FROM && fits(target, offset) && !is_cached(file, offset, target.len()),
        DirectIo::On => fits(target, offset),
        DirectIo::Off => false,
    }
}

/// Returns whether address, length and offset suit direct I/O.
pub fn fits(bytes: &[u8], offset: u64) -> bool {
    let aligned = |number: usize| number.is_multiple_of(ALIGNED);
    !bytes.is_empty() && aligned(bytes.as_ptr().addr()) && aligned(bytes.len()) && aligned(offset as usize)
}

/// Returns whether more than an eighth of a part is in the page cache, so that reading it from the
/// device would be slower. If the kernel does not report this, checks both ends of the part.
fn is_cached(file: &OwnedFd, offset: u64, length: usize) -> bool {
    let most = length as u64 / 8 / numaio_linux::memory::page_bytes() as u64;
    match cached_pages(file, offset, length) {
        Some(pages) => pages > most,
        None => [offset, offset + length as u64 - 1].into_iter().all(|at| is_byte_cached(file, at)),
    }
}

/// Counts the cached pages of a part (cachestat(2), Linux 6.5). None unless this user owns the file
/// or may write to it (`can_do_cachestat` in mm/filemap.c).
fn cached_pages(file: &OwnedFd, offset: u64, length: usize) -> Option<u64> {
    // `struct cachestat_range` and `struct cachestat`, whose first field is the number of cached
    // pages.
    let (range, mut stat) = ([offset, length as u64], [0u64; 5]);
    // SAFETY: the kernel reads two numbers and writes five, which live through the call.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0) };
    // On overlayfs the pages belong to the underlying file.
    (done == 0 && (stat[0] > 0 || !is_filesystem(file, &[OVERLAYFS]))).then_some(stat[0])
}

/// Returns whether a byte is in the page cache (preadv2(2), `RWF_NOWAIT`). If not, the kernel
/// starts to read its page, and with random-access advice only that one.
fn is_byte_cached(file: &OwnedFd, offset: u64) -> bool {
    let mut byte = [0];
    let advised = rustix::fs::fadvise(file, 0, None, Advice::Random);
    let read =
        || rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
    advised.and_then(|()| retry_on_intr(read)) != Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::super::block::{Block, BlockOperation, OpenPart};
    use super::super::cached_io::write_all;
    use super::*;
    use crate::files::file_stat::file_stat;
    use crate::files::Roots;
    use numaio_mover::port::{
        Digest, FaultKind, FilePath, FileWrite, OpenMode, Operation, Outcome, Part, ReadPiece, BLOCK,
    };
    use rustix::fs::Mode;
    use std::path::PathBuf;

    /// A buffer aligned for direct I/O.
    struct Buffer(Vec<u8>);

    impl Buffer {
        fn of(bytes: impl Fn(usize) -> u8) -> Self {
            let mut buffer = Self(vec![0; BLOCK + ALIGNED]);
            buffer.as_mut().iter_mut().enumerate().for_each(|(index, byte)| *byte = bytes(index));
            buffer
        }

        fn skipped(&self) -> usize {
            self.0.as_ptr().align_offset(ALIGNED)
        }
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0[self.skipped()..][..BLOCK]
        }
    }

    impl AsMut<[u8]> for Buffer {
        fn as_mut(&mut self) -> &mut [u8] {
            let skipped = self.skipped();
            &mut self.0[skipped..][..BLOCK]
        }
    }

    /// A directory on the file system of the sources, with an empty file; removed on drop.
    struct Folder(PathBuf, Roots);

    impl Folder {
        fn new(name: &str) -> Self {
            let here = std::env::current_dir().expect("a directory");
            let folder = here.join(format!("{name}-{}.tmp", std::process::id()));
            std::fs::create_dir(&folder).expect("a folder");
            std::fs::write(folder.join("file"), "").expect("a file");
            let roots = Roots::open(&[&folder]).expect("a root");
            Self(folder, roots)
        }

        fn file(&self) -> OwnedFd {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(self.0.join("file"), flags, Mode::empty()).expect("the file")
        }

        /// Returns a piece of the file in its current state.
        fn piece(&self, offset: u64, length: usize) -> ReadPiece {
            let identity = file_stat(&rustix::fs::fstat(self.file()).expect("what it is")).identity();
            ReadPiece { at: at(), identity, offset, length, as_it_is: false }
        }

        /// Reads a piece and returns its bytes.
        fn read(&self, piece: ReadPiece) -> Vec<u8> {
            let length = piece.length;
            let operation = Operation::Read { pieces: vec![piece], hash, pack: None };
            match self.1.run(operation, || Some(Buffer::of(|_| 0))) {
                Outcome::Read { results, data, .. } => {
                    let bytes = data.as_ref()[..length].to_vec();
                    assert_eq!(results, [Ok(hash(&bytes))]);
                    bytes
                }
                other => panic!("{:?}", faults(other)),
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    fn faults(outcome: Outcome<Buffer>) -> Vec<Option<FaultKind>> {
        match outcome {
            Outcome::Results(results) => results.into_iter().map(|it| it.err().map(|it| it.why)).collect(),
            Outcome::Read { results, .. } => {
                results.into_iter().map(|it| it.err().map(|it| it.why)).collect()
            }
            _ => panic!("neither written nor read"),
        }
    }

    fn at() -> FilePath {
        FilePath::new(0, &b"file"[..])
    }

    fn hash(bytes: &[u8]) -> Digest {
        let mut digest = Digest::default();
        bytes
            .iter()
            .enumerate()
            .for_each(|(index, byte)| digest.0[index % 32] ^= byte.rotate_left(index as u32 / 32 % 8));
        digest
    }

    fn block(file: OwnedFd, data: Buffer, part: Part, then: BlockOperation) -> Block<Buffer> {
        Block::new(OpenPart { file, data, part }, then)
    }

    fn put(part: Part) -> FileWrite {
        FileWrite {
            at: at(),
            begin: OpenMode::ContinueInPlace,
            held: Vec::new(),
            check: Vec::new(),
            parts: vec![part],
            sparse: false,
            settle: None,
        }
    }

    #[test]
    fn blocks_round_trip_with_direct_and_cached_io() {
        let folder = Folder::new("direct");
        let begin = Operation::Write {
            puts: vec![FileWrite::new(at(), OpenMode::InPlace)],
            data: None::<Buffer>,
            hash,
            packed: None,
        };
        assert_eq!(faults(folder.1.run(begin, || unreachable!("nothing is read"))), [None]);
        // Complete pages, a tail, an unaligned address and an unaligned offset; before and after
        // the threshold.
        let cases = [(0, 2 * ALIGNED, 0), (0, 2 * ALIGNED + 17, 0), (1, ALIGNED, 0), (0, ALIGNED, 3)];
        for (number, (start, length, shift)) in cases.into_iter().enumerate() {
            for border in [0, 257 << 20] {
                let offset = border + (number * 8 * ALIGNED) as u64 + shift;
                let data = Buffer::of(|index| (index % 251) as u8 + number as u8);
                let sent = data.as_ref()[start..start + length].to_vec();
                let puts = vec![put(Part { bytes: start..start + length, offset })];
                let operation = Operation::Write { puts, data: Some(data), hash, packed: None };
                let written = folder.1.run(operation, || unreachable!("nothing is read"));
                assert_eq!(faults(written), [None], "case {number} at {offset}");
                let file = folder.file();
                rustix::fs::ftruncate(&file, 300 << 20).expect("a large file");
                rustix::fs::fdatasync(&file).expect("durable");
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
                assert!(folder.read(folder.piece(offset, length)) == sent, "case {number} at {offset}");
            }
        }
    }

    #[test]
    fn failed_direct_writes_use_the_cache_or_report_a_fault() {
        let folder = Folder::new("unwritten");
        let cases = [
            (Ok(2 * ALIGNED), None),
            (Ok(ALIGNED), None),
            (Ok(0), None),
            (Err(Errno::INVAL), None),
            (Err(Errno::AGAIN), None),
            (Err(Errno::NOSPC), Some(FaultKind::NoSpace)),
            (Err(Errno::DQUOT), Some(FaultKind::Quota)),
            (Err(Errno::IO), Some(FaultKind::Device)),
        ];
        for (moved, why) in cases {
            let file = folder.file();
            rustix::fs::ftruncate(&file, 0).expect("emptied");
            let part = Part { bytes: 0..2 * ALIGNED, offset: 0 };
            let block = block(file, Buffer::of(|_| 7), part.clone(), BlockOperation::Write(put(part)));
            assert_eq!(faults(folder.1.finish(block, moved)), [why], "{moved:?}");
            let is_written = why.is_none() && moved != Ok(2 * ALIGNED);
            let length = std::fs::metadata(folder.0.join("file")).expect("the file").len();
            assert_eq!(length, if is_written { 2 * ALIGNED as u64 } else { 0 }, "{moved:?}");
        }
    }

    #[test]
    fn failed_direct_reads_use_the_cache() {
        let folder = Folder::new("unread");
        write_all(&folder.file(), &[7; 2 * ALIGNED], 0).expect("written");
        let whole = Part { bytes: 0..2 * ALIGNED, offset: 0 };
        for moved in [Ok(ALIGNED), Ok(0), Err(Errno::INVAL), Err(Errno::IO), Err(Errno::AGAIN)] {
            let then = BlockOperation::Read(folder.piece(0, 2 * ALIGNED), hash);
            let block = block(folder.file(), Buffer::of(|_| 0), whole.clone(), then);
            match folder.1.finish(block, moved) {
                Outcome::Read { results, data, .. } => {
                    assert_eq!(results, [Ok(hash(&[7; 2 * ALIGNED]))], "{moved:?}");
                    assert!(data.as_ref()[..2 * ALIGNED].iter().all(|byte| *byte == 7), "{moved:?}");
                }
                other => panic!("{:?}", faults(other)),
            }
        }
        let then = BlockOperation::Read(folder.piece(0, 2 * ALIGNED), hash);
        rustix::fs::ftruncate(folder.file(), ALIGNED as u64).expect("shorter");
        for moved in [Ok(2 * ALIGNED), Ok(ALIGNED)] {
            let then = match &then {
                BlockOperation::Read(piece, hash) => BlockOperation::Read(piece.clone(), *hash),
                BlockOperation::Write(_) => unreachable!("it is read"),
            };
            let block = block(folder.file(), Buffer::of(|_| 0), whole.clone(), then);
            assert_eq!(faults(folder.1.finish(block, moved)), [Some(FaultKind::Changed)], "{moved:?}");
        }
    }

    #[test]
    fn cached_parts_are_detected_where_the_kernel_reports_them() {
        let folder = Folder::new("cached");
        let file = folder.file();
        write_all(&file, &[1; 4 * ALIGNED], 0).expect("written");
        assert!(is_cached(&file, 0, 4 * ALIGNED));
        // The hole after the data was never read. None before Linux 6.5.
        rustix::fs::ftruncate(&file, 64 << 20).expect("longer");
        assert_eq!(cached_pages(&file, 32 << 20, 1 << 20).unwrap_or(0), 0);
        let is_reported = cached_pages(&file, 0, ALIGNED).is_some();
        if is_reported {
            assert!(!is_cached(&file, 32 << 20, 1 << 20));
        }
        let buffer = Buffer::of(|_| 0);
        let target = &buffer.as_ref()[..ALIGNED];
        let is_direct = |direct, offset, size| reads_direct(direct, &file, target, offset, size);
        assert!(!is_direct(DirectIo::Auto, 0, READ_FROM), "it was in the cache");
        assert!(!is_direct(DirectIo::Auto, 32 << 20, READ_FROM - 1), "it is small");
        let is_cached = is_cached(&file, 32 << 20, ALIGNED);
        assert_eq!(is_direct(DirectIo::Auto, 32 << 20, READ_FROM), !is_cached);
        assert!(is_direct(DirectIo::On, 0, 1) && !is_direct(DirectIo::On, 1, READ_FROM), "not aligned");
        assert!(!is_direct(DirectIo::Off, 32 << 20, READ_FROM));
    }

    /// Counts voluntary context switches of this thread (Documentation/filesystems/proc.rst,
    /// `status`).
    fn sleeps() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    }

    #[test]
    fn cached_bytes_are_detected_without_waiting() {
        let folder = Folder::new("at-once");
        let file = folder.file();
        write_all(&file, &[1; 64 * ALIGNED], 0).expect("written");
        rustix::fs::fdatasync(&file).expect("durable");
        assert!(is_byte_cached(&file, 0) && is_byte_cached(&file, 64 * ALIGNED as u64 - 1));
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
        // Some file systems keep the pages.
        if cached_pages(&file, 0, 64 * ALIGNED) == Some(0) {
            // The query starts a read, which a fast disk may finish early; the thread does not wait
            // for it.
            let before = sleeps();
            let came = is_byte_cached(&file, 40 * ALIGNED as u64);
            assert_eq!(sleeps(), before, "it was waited for");
            let is_there = cached_pages(&file, 40 * ALIGNED as u64, ALIGNED) == Some(1);
            assert!(!came || is_there, "it was not in the cache");
            let others = cached_pages(&file, 0, 32 * ALIGNED);
            assert_eq!(others, Some(0), "nothing else was fetched");
        }
    }

    /// Files of overlayfs have no pages of their own (Documentation/filesystems/overlayfs.rst).
    #[test]
    fn cached_parts_are_detected_on_overlayfs() {
        let folder = Folder::new("overlay");
        let path = |name: &str| folder.0.join(name).into_os_string().into_encoded_bytes();
        let target = [path("over"), b"\0".to_vec()].concat();
        for name in ["over", "one", "other"] {
            std::fs::create_dir(folder.0.join(name)).expect("a folder");
        }
        std::fs::write(folder.0.join("one/file"), [1; 64 * ALIGNED]).expect("written");
        let options = [b"lowerdir=", &path("one")[..], b":", &path("other"), b"\0"].concat();
        // SAFETY: zero-terminated strings that live through the call.
        let done = unsafe {
            let kind = c"overlay".as_ptr();
            libc::mount(kind, target.as_ptr().cast(), kind, libc::MS_RDONLY, options.as_ptr().cast())
        };
        if done != 0 {
            return crate::test_support::print_skipped("skipped: overlayfs: cannot be mounted");
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder.0.join("over/file"), flags, Mode::empty());
        let is_cached = opened.map(|file| is_cached(&file, 0, 64 * ALIGNED));
        // SAFETY: a zero-terminated string.
        unsafe { libc::umount2(target.as_ptr().cast(), libc::MNT_DETACH) };
        assert_eq!(is_cached, Ok(true));
    }
}
