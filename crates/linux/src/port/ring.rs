//! Blocks that are on their way between files and a device, many at a time for one thread (io_uring(7)).

use super::pool::Slab;
use crate::affinity::Mask;
use crate::files::{Block, Request};
use crate::io::ring;
use io_uring::{opcode, squeue, types, IoUring};
use rustix::io::Errno;
use std::io;

/// Blocks of one thread on their way at once. With its neighbours' this is what disks of today need to be busy.
const DEPTH: usize = 8;

/// A ring of one thread, with something to know again for each block.
pub(super) struct Ring<T> {
    ring: IoUring,
    slots: Vec<Option<(Block<Slab>, T)>>,
    /// Places where nothing is.
    free: Vec<usize>,
}

impl<T> Ring<T> {
    /// A ring for the calling thread, on whose CPUs the kernel's own threads for it run, too.
    ///
    /// # Errors
    /// The kernel's: io_uring is not there, or forbidden.
    pub fn new(mask: Option<&Mask>) -> io::Result<Self> {
        let mut ring = ring(DEPTH as u32)?;
        if let Some(cpus) = mask.and_then(Mask::as_cpu_set) {
            // Kernels before 5.14 put them anywhere: slower, and not wrong.
            drop(ring.submitter().register_iowq_aff(&cpus));
        }
        // A sandbox may allow rings, and forbid to use them.
        // SAFETY: a request without a buffer.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        ring.completion().for_each(drop);
        Ok(Self { ring, slots: (0..DEPTH).map(|_| None).collect(), free: (0..DEPTH).rev().collect() })
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Whether one more can be added.
    pub fn has_capacity(&self) -> bool {
        !self.free.is_empty()
    }

    /// Adds a block; the kernel hears of it by [`Ring::submit`] or [`Ring::wait`]. Gives it back if there is no room.
    pub fn add(&mut self, mut block: Block<Slab>, with: T) -> Option<(Block<Slab>, T)> {
        let Some(slot) = self.free.pop() else { return Some((block, with)) };
        let entry = entry(block.request()).user_data(slot as u64);
        // SAFETY: the file and the buffer are the block's, which stays in its place until the kernel has answered: that
        // takes it out, and a ring that is dropped waits for all answers.
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

    /// Tells the kernel of what was added.
    pub fn submit(&mut self) {
        // What it cannot take now it is told of again.
        drop(self.ring.submit());
    }

    /// Waits until a block or more are there, and gives each with what was moved of it. None after a signal.
    pub fn wait(&mut self) -> Vec<(Block<Slab>, T, Result<usize, Errno>)> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => std::thread::yield_now(),
            _ => {}
        }
        self.moved()
    }

    /// Blocks that are there by now; the kernel puts none there before it is asked (`IORING_SETUP_DEFER_TASKRUN`).
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
        // The kernel may still read or write buffers.
        while !self.is_idle() {
            drop(self.wait());
        }
    }
}

/// Whether threads of this process may have rings.
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

/// Bytes that were moved, or the kernel's error.
fn result(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}
