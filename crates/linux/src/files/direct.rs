//! Blocks of large files past the page cache (open(2), `O_DIRECT`).
//!
//! A block is moved by the device into or out of the buffer, without a copy by the CPU and without pages to be found
//! for it. Whatever cannot be moved so (a file system that does not have it, a tail that is no multiple of what the
//! device takes) goes through the cache.

use super::fault::fault;
use super::write::write_all;
use numaio_machine::port::Fault;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{retry_on_intr, Errno};

/// Smallest file that is read so, in bytes. Readahead serves smaller ones as well.
const READ_FROM: u64 = 64 << 20;
/// Bytes of which addresses, offsets and lengths must be multiples: no device that we know asks for more.
const ALIGNED: usize = 4_096;
/// `__NR_cachestat`, on all architectures (include/uapi/asm-generic/unistd.h).
const CACHESTAT: libc::c_long = 451;

/// Reads a part of a file of `size` bytes past the page cache. False if it is to be read otherwise: it is small, it is
/// in the cache, or the kernel refuses.
pub fn read(file: &OwnedFd, room: &mut [u8], offset: u64, size: u64) -> bool {
    if size < READ_FROM || !fits(room, offset) || is_cached(file, offset, room.len()) {
        return false;
    }
    let read = past_the_cache(file, || rustix::io::pread(file, &mut *room, offset));
    read == Ok(room.len())
}

/// Writes all bytes at an offset, through the cache if it `is_cached`.
///
/// # Errors
/// The kernel's.
pub fn write(file: &OwnedFd, bytes: &[u8], offset: u64, is_cached: bool) -> Result<(), Fault> {
    if !is_cached && fits(bytes, offset) {
        match past_the_cache(file, || rustix::io::pwrite(file, bytes, offset)) {
            Ok(count) if count == bytes.len() => return Ok(()),
            // What the cache would take, too, and lose later.
            Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => {
                return Err(fault("write to it")(errno))
            }
            Ok(_) | Err(_) => {}
        }
    }
    write_all(file, bytes, offset)
}

/// Whether a directory's file system has nothing but a page cache.
pub fn is_in_memory(directory: &OwnedFd) -> bool {
    rustix::fs::fstatfs(directory).is_ok_and(|stat| crate::io::is_memory(stat.f_type))
}

fn fits(bytes: &[u8], offset: u64) -> bool {
    let aligned = |number: usize| number.is_multiple_of(ALIGNED);
    !bytes.is_empty() && aligned(bytes.as_ptr().addr()) && aligned(bytes.len()) && aligned(offset as usize)
}

/// Runs a call while the file has `O_DIRECT`.
fn past_the_cache(
    file: &OwnedFd,
    call: impl FnMut() -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    rustix::fs::fcntl_setfl(file, OFlags::DIRECT)?;
    let done = retry_on_intr(call);
    rustix::fs::fcntl_setfl(file, OFlags::empty())?;
    done
}

/// Whether more than an eighth of a part of a file is in the page cache. Where nobody can tell it may be, and then to
/// read it from the device again would be slower.
fn is_cached(file: &OwnedFd, offset: u64, length: usize) -> bool {
    let most = length as u64 / 8 / crate::page_bytes() as u64;
    cached_pages(file, offset, length).is_none_or(|pages| pages > most)
}

/// Pages of a part of a file that are in the page cache (cachestat(2), Linux 6.5).
fn cached_pages(file: &OwnedFd, offset: u64, length: usize) -> Option<u64> {
    // `struct cachestat_range`, and `struct cachestat`, of which the first field is the number of pages in the cache.
    let (range, mut stat) = ([offset, length as u64], [0u64; 5]);
    // SAFETY: the kernel reads two numbers and writes five, which live as long as the call.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0) };
    (done == 0).then_some(stat[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    /// What of some bytes begins at an address that devices take.
    fn aligned(bytes: &mut [u8]) -> &mut [u8] {
        let skipped = bytes.as_ptr().align_offset(ALIGNED);
        &mut bytes[skipped..]
    }

    /// A file without a name, on the file system of the sources.
    fn file(name: &str) -> OwnedFd {
        let folder = std::env::current_dir().expect("a directory");
        let path = folder.join(format!("{name}-{}.tmp", std::process::id()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        file
    }

    #[test]
    fn blocks_come_back_whether_or_not_they_can_go_past_the_cache() {
        let file = file("direct");
        let mut memory = vec![0; 6 * ALIGNED];
        let aligned = aligned(&mut memory);
        // Whole pages, a tail, an address and an offset that no device takes; before and behind the border.
        let cases = [(0, 2 * ALIGNED, 0), (0, 2 * ALIGNED + 17, 0), (1, ALIGNED, 0), (0, ALIGNED, 3)];
        for (number, (at, length, shift)) in cases.into_iter().enumerate() {
            for border in [0, 257 << 20] {
                let offset = border + (number * 8 * ALIGNED) as u64 + shift;
                let bytes = &mut aligned[at..at + length];
                bytes
                    .iter_mut()
                    .zip(0u32..)
                    .for_each(|(byte, index)| *byte = (index % 251) as u8 + number as u8);
                let sent = bytes.to_vec();
                write(&file, bytes, offset, border == 0).expect("written");
                rustix::fs::fdatasync(&file).expect("durable");
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
                bytes.fill(0);
                if !read(&file, bytes, offset, READ_FROM) {
                    assert_eq!(rustix::io::pread(&file, &mut *bytes, offset), Ok(length));
                }
                assert!(bytes == sent, "case {number} at {offset}");
                assert!(!rustix::fs::fcntl_getfl(&file).expect("flags").contains(OFlags::DIRECT));
            }
        }
    }

    #[test]
    fn what_is_in_the_cache_is_known_where_the_kernel_tells() {
        let file = file("cached");
        write_all(&file, &[1; 4 * ALIGNED], 0).expect("written");
        assert!(is_cached(&file, 0, 4 * ALIGNED));
        // Nobody read the hole behind it. None before Linux 6.5.
        rustix::fs::ftruncate(&file, 64 << 20).expect("longer");
        assert_eq!(cached_pages(&file, 32 << 20, 1 << 20).unwrap_or(0), 0);
        let is_told = cached_pages(&file, 0, ALIGNED).is_some();
        assert_eq!(is_cached(&file, 32 << 20, 1 << 20), !is_told);
        let mut room = vec![0; 2 * ALIGNED];
        let room = &mut aligned(&mut room)[..ALIGNED];
        assert!(!read(&file, room, 0, READ_FROM), "it was in the cache");
        assert!(!read(&file, room, 0, READ_FROM - 1), "it is small");
    }
}
