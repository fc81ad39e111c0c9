//! Blocks in flight between files and a device, several per thread (io_uring(7)).

use super::pool::Slab;
use crate::files::{Block, Request};
use io_uring::{opcode, squeue, types, IoUring};
use numaio_linux::affinity::Mask;
use numaio_linux::io::ring;
use rustix::io::Errno;
use std::io;

/// Blocks in flight per thread. Together with other threads, this saturates current disks.
const DEPTH: usize = 8;

/// A ring of one thread; `T` identifies each block.
pub(super) struct Ring<T> {
    ring: IoUring,
    slots: Vec<Option<(Block<Slab>, T)>>,
    /// Unused slots.
    free: Vec<usize>,
}

impl<T> Ring<T> {
    /// Creates a ring for the calling thread. The kernel's worker threads for it run on the same
    /// CPUs.
    ///
    /// # Errors
    /// I/O error if io_uring is unavailable or forbidden.
    pub fn new(mask: Option<&Mask>) -> io::Result<Self> {
        let mut ring = ring(DEPTH as u32)?;
        if let Some(cpus) = mask.and_then(Mask::as_cpu_set) {
            // Kernels before 5.14 run their workers anywhere: slower, but correct.
            drop(ring.submitter().register_iowq_aff(&cpus));
        }
        // A sandbox may allow creating a ring and forbid using it.
        // SAFETY: a request without a buffer.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        ring.completion().for_each(drop);
        Ok(Self { ring, slots: (0..DEPTH).map(|_| None).collect(), free: (0..DEPTH).rev().collect() })
    }

    /// Returns whether no block is in flight.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Returns whether another block can be added.
    pub fn has_capacity(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds a block, submitted by [`Ring::submit`] or [`Ring::wait`]. Returns it if the ring is
    /// full.
    pub fn add(&mut self, mut block: Block<Slab>, with: T) -> Option<(Block<Slab>, T)> {
        let Some(slot) = self.free.pop() else { return Some((block, with)) };
        let entry = entry(block.request()).user_data(slot as u64);
        // SAFETY: the block owns the file and the buffer, and stays in its slot until its
        // completion removes it; dropping a ring waits for all completions.
        match unsafe { self.ring.submission().push(&entry) } {
            Ok(()) => {
                self.slots[slot] = Some((block, with));
                None
            }
            Err(_) => {
                self.free.push(slot);
                Some((block, with))
            }
        }
    }

    /// Submits the added blocks.
    pub fn submit(&mut self) {
        // The next call submits what the kernel did not accept.
        drop(self.ring.submit());
    }

    /// Waits for completed blocks and returns each with its result. Empty after a signal.
    pub fn wait(&mut self) -> Vec<(Block<Slab>, T, Result<usize, Errno>)> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => std::thread::yield_now(),
            _ => {}
        }
        self.moved()
    }

    /// Returns blocks that are already complete; the kernel reports none without this call
    /// (`IORING_SETUP_DEFER_TASKRUN`).
    pub fn poll_moved(&mut self) -> Vec<(Block<Slab>, T, Result<usize, Errno>)> {
        const GETEVENTS: u32 = 1;
        // SAFETY: nothing is submitted, and there is no signal mask.
        drop(unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GETEVENTS, None) });
        self.moved()
    }

    fn moved(&mut self) -> Vec<(Block<Slab>, T, Result<usize, Errno>)> {
        let mut moved = Vec::new();
        for done in self.ring.completion() {
            let slot = done.user_data() as usize;
            if let Some((block, with)) = self.slots.get_mut(slot).and_then(Option::take) {
                self.free.push(slot);
                moved.push((block, with, result(done.result())));
            }
        }
        moved
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // The kernel may still access the buffers.
        while !self.is_idle() {
            drop(self.wait());
        }
    }
}

/// Returns whether threads of this process can use io_uring.
pub fn has_io_uring() -> bool {
    Ring::<()>::new(None).is_ok()
}

fn entry(request: Request) -> squeue::Entry {
    let Request { file, start, length, offset, is_write } = request;
    let file = types::Fd(file);
    match is_write {
        true => opcode::Write::new(file, start, length).offset(offset).build(),
        false => opcode::Read::new(file, start, length).offset(offset).build(),
    }
}

/// Returns the number of bytes moved, or the error.
fn result(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}
