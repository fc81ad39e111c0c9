//! I/O requests by pread(2) and pwrite(2): one in flight per thread.

use super::disk_part::DiskPart;
use crate::io::streams::RequestQueue;
use std::io;
use std::os::fd::AsRawFd;

/// Queue with a depth of one.
pub struct PreadQueue(pub DiskPart);

impl RequestQueue for PreadQueue {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        let part = &mut self.0;
        let at = part.blocks.next();
        part.at[0] = at;
        let (file, start, bytes) = (part.file.as_raw_fd(), part.slot(0), part.block_bytes as usize);
        // SAFETY: slot 0 holds one block, and nothing else uses it.
        let done = unsafe {
            match part.write {
                true => libc::pwrite(file, start.cast(), bytes, at as libc::off_t),
                false => libc::pread(file, start.cast(), bytes, at as libc::off_t),
            }
        };
        if done >= 0 {
            return part.completed_bytes(0, done as i64);
        }
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        if errno == libc::EINTR {
            Ok(0)
        } else {
            part.completed_bytes(0, -i64::from(errno))
        }
    }
}
