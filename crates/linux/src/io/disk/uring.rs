//! I/O requests by io_uring (io_uring(7)), with a registered buffer and file.

use super::disk_part::DiskPart;
use crate::io::streams::RequestQueue;
use io_uring::{opcode, squeue, types, IoUring};
use std::io;
use std::os::fd::AsRawFd;

/// Ring of one worker.
pub struct UringQueue {
    ring: IoUring,
    part: DiskPart,
    /// Whether the buffer is registered.
    fixed: bool,
    /// Buffer slots without a request.
    free: Vec<u32>,
}

impl UringQueue {
    /// Creates a ring with one entry per slot, and a note if the buffer could not be registered.
    ///
    /// # Errors
    /// The kernel's error: io_uring is unavailable or forbidden.
    pub fn new(part: DiskPart) -> io::Result<(Self, Option<String>)> {
        let ring = ring(part.slots)?;
        ring.submitter().register_files(&[part.file.as_raw_fd()])?;
        let buffer = libc::iovec { iov_base: part.start.cast(), iov_len: part.buffer_bytes() };
        // SAFETY: the buffer outlives the ring: dropping the queue waits for all requests, and the
        // worker drops its queue before its buffer.
        let registered = unsafe { ring.submitter().register_buffers(&[buffer]) };
        let note = registered.as_ref().err().map(|error| {
            format!("io_uring without registered buffers: {error} (RLIMIT_MEMLOCK limits locked memory)")
        });
        let free = (0..part.slots).rev().collect();
        Ok((Self { ring, part, fixed: registered.is_ok(), free }, note))
    }

    fn entry(&self, slot: u32) -> (squeue::Entry, u64) {
        let at = self.part.blocks.next();
        let (file, bytes) = (types::Fixed(0), self.part.block_bytes);
        let start = self.part.slot(slot);
        let entry = match (self.part.write, self.fixed) {
            (true, true) => opcode::WriteFixed::new(file, start, bytes, 0).offset(at).build(),
            (true, false) => opcode::Write::new(file, start, bytes).offset(at).build(),
            (false, true) => opcode::ReadFixed::new(file, start, bytes, 0).offset(at).build(),
            (false, false) => opcode::Read::new(file, start, bytes).offset(at).build(),
        };
        (entry, at)
    }

    fn submit_all(&mut self) -> Result<(), String> {
        while let Some(slot) = self.free.pop() {
            let (entry, at) = self.entry(slot);
            self.part.at[slot as usize] = at;
            let entry = entry.user_data(slot.into());
            // SAFETY: no other request uses this buffer slot until this request completes.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.free.push(slot);
                return Err("the ring has fewer entries than requests".to_owned());
            }
        }
        Ok(())
    }

    /// Collects all completions.
    fn reap(&mut self) -> Result<u64, String> {
        let mut bytes = 0;
        let mut failed = None;
        for done in self.ring.completion() {
            let slot = done.user_data() as u32;
            self.free.push(slot);
            match self.part.completed_bytes(slot, i64::from(done.result())) {
                Ok(more) => bytes += more,
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(bytes), Err)
    }
}

impl RequestQueue for UringQueue {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        self.submit_all()?;
        match self.ring.submit_and_wait(1) {
            Ok(_) => self.reap(),
            // Full queues and signals are temporary.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                self.reap()
            }
            Err(error) => Err(format!("io_uring_enter: {error}")),
        }
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        // The kernel may access the buffer until every request has completed.
        while self.free.len() < self.part.slots as usize {
            let waited = self.ring.submit_and_wait(1);
            drop(self.reap());
            if waited.is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
                std::thread::yield_now();
            }
        }
    }
}

/// Creates a ring of io_uring(7) for one thread, in which its completions run where supported
/// (Linux 6.1).
///
/// # Errors
/// The kernel's error: io_uring is unavailable or forbidden.
pub fn ring(entries: u32) -> io::Result<IoUring> {
    let mut modern = IoUring::builder();
    modern.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
    match modern.build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        result => result,
    }
}

/// Checks whether this process may use io_uring, which kernels and sandboxes can forbid
/// (`Documentation/admin-guide/sysctl/kernel.rst`, io_uring_disabled).
pub fn allowed() -> io::Result<()> {
    let ring = IoUring::new(1)?;
    // A sandbox may allow rings but not registration; -1 is an empty slot.
    ring.submitter().register_files(&[-1])
}
