//! Preallocated, reusable I/O buffers.

use numaio_linux::memory::{map_buffers, Buffer, BufferRequest, FreeMemory};
use numaio_linux::Root;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Pages;
use numaio_mover::port::BlockSize;
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a transparent huge page, on x86-64 and on aarch64 with base pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// A pool of buffers of one block.
pub struct Pool {
    block: BlockSize,
    memory: Memory,
    node: Option<NodeId>,
    count: usize,
    free: Mutex<Free>,
    given_back: Condvar,
}

/// Unused buffers.
#[derive(Debug)]
struct Free {
    parts: Vec<usize>,
    /// Whether waiting for a buffer is disabled.
    closed: bool,
}

enum Memory {
    /// Bound to a node, on huge pages if available.
    Bound(Buffer),
    /// Placed by the kernel.
    Plain(Box<[UnsafeCell<u8>]>),
}

// SAFETY: the memory is accessed only through slabs, each of which owns a distinct part; a mutex
// guards the list of free parts.
unsafe impl Sync for Pool {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Pool {}

impl Pool {
    /// Creates unbound buffers whose pages are allocated at first use, huge ones if available. With
    /// huge pages direct I/O took a third less CPU time than with base pages, which are pinned one
    /// by one.
    pub fn new(count: usize) -> Arc<Self> {
        Self::of_blocks(count, BlockSize::default())
    }

    /// The same with another block size.
    pub fn of_blocks(count: usize, block: BlockSize) -> Arc<Self> {
        Self::placed(count, None, block)
    }

    /// Creates unbound buffers that are treated as those of a node.
    pub(super) fn placed(count: usize, node: Option<NodeId>, block: BlockSize) -> Arc<Self> {
        let zeros = Box::into_raw(vec![0u8; count * block.bytes() + HUGE].into_boxed_slice());
        // SAFETY: a cell has the layout of its content, and the complete allocation is passed on.
        // Creating cells one by one would write to them and allocate their pages too early.
        let memory = unsafe { Box::from_raw(zeros as *mut [UnsafeCell<u8>]) };
        advise_huge(&memory);
        Self::of(Memory::Plain(memory), node, (count, block))
    }

    /// Creates buffers on a node.
    ///
    /// # Errors
    /// [`ProbeError`] if the node lacks memory or a sandbox forbids binding.
    pub fn on(
        root: &Root,
        limit_bytes: Option<u64>,
        node: NodeId,
        (count, block): (usize, BlockSize),
    ) -> Result<Arc<Self>, ProbeError> {
        let room = FreeMemory::new(root, limit_bytes);
        let wanted = BufferRequest { node, bytes: (count * block.bytes()) as u64, offset_lines: 0 };
        let mut made = map_buffers(&room, Pages::Transparent, &[wanted])?;
        let refused = || ProbeError::Refused {
            call: "map buffers".to_owned(),
            reason: "the kernel returned none".to_owned(),
        };
        Ok(Self::of(Memory::Bound(made.pop().ok_or_else(refused)?), Some(node), (count, block)))
    }

    /// Returns the node that the memory is bound to; none if the kernel places it.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    fn of(memory: Memory, node: Option<NodeId>, (count, block): (usize, BlockSize)) -> Arc<Self> {
        let free = Free { parts: (0..count).rev().collect(), closed: false };
        Arc::new(Self { block, memory, node, count, free: Mutex::new(free), given_back: Condvar::new() })
    }

    /// Returns the size of a buffer.
    pub fn block(&self) -> BlockSize {
        self.block
    }

    /// Returns the number of buffers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns a buffer if one is free.
    pub fn take_free(self: &Arc<Self>) -> Option<Slab> {
        let index = self.free().parts.pop()?;
        Some(Slab { pool: self.clone(), index })
    }

    /// Returns a buffer; blocks until one is free. None if the pool is closed and empty.
    pub fn take(self: &Arc<Self>) -> Option<Slab> {
        let waits = |free: &mut Free| free.parts.is_empty() && !free.closed;
        let free = self.given_back.wait_while(self.free(), waits);
        // The most recently returned buffer is most likely cached.
        let index = free.unwrap_or_else(PoisonError::into_inner).parts.pop()?;
        Some(Slab { pool: self.clone(), index })
    }

    /// Disables waiting for buffers, since those in use may never return.
    pub fn close(&self) {
        self.free().closed = true;
        self.given_back.notify_all();
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> *mut u8 {
        match &self.memory {
            Memory::Bound(buffer) => buffer.start(),
            Memory::Plain(bytes) => {
                let start = UnsafeCell::raw_get(bytes.as_ptr());
                // The allocation is one huge page larger than the buffers.
                start.wrapping_add(start.align_offset(HUGE))
            }
        }
    }
}

/// Requests huge pages (madvise(2)). A kernel without them ignores this.
fn advise_huge(memory: &[UnsafeCell<u8>]) {
    let start = UnsafeCell::raw_get(memory.as_ptr());
    let skipped = start.align_offset(HUGE);
    let length = memory.len().saturating_sub(skipped) / HUGE * HUGE;
    // SAFETY: complete pages of our own allocation; the advice does not change their content.
    unsafe { libc::madvise(start.wrapping_add(skipped).cast(), length, libc::MADV_HUGEPAGE) };
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("free", &self.free).finish_non_exhaustive()
    }
}

/// A buffer of a pool; returned when dropped.
#[derive(Debug)]
pub struct Slab {
    pool: Arc<Pool>,
    index: usize,
}

impl Slab {
    /// Returns the size of the buffer.
    pub fn block(&self) -> BlockSize {
        self.pool.block
    }

    fn start(&self) -> *mut u8 {
        self.pool.start().wrapping_add(self.index * self.pool.block.bytes())
    }

    /// Returns the node that the memory is bound to, if any.
    pub fn node(&self) -> Option<NodeId> {
        self.pool.node
    }
}

impl AsRef<[u8]> for Slab {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the part lies within the pool's memory, which lives as long as the pool, is
        // initialized by the kernel, and belongs to this slab alone: its index is not in the free
        // list while the slab lives.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.block.bytes()) }
    }
}

impl AsMut<[u8]> for Slab {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the slab is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.block.bytes()) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.pool.free().parts.push(self.index);
        self.pool.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_disjoint_and_return_to_the_pool() {
        for block in [BlockSize::MIN, 1 << 20, 4 << 20] {
            check_slabs(BlockSize::new(block as u64).expect("a block size"));
        }
    }

    fn check_slabs(block: BlockSize) {
        let pool = Pool::of_blocks(3, block);
        let mut slabs: Vec<Slab> = (0..3).filter_map(|_| pool.take()).collect();
        let aligned = block.bytes().min(HUGE);
        assert!(slabs.iter().all(|slab| slab.as_ref().as_ptr().addr().is_multiple_of(aligned)));
        for (value, slab) in slabs.iter_mut().enumerate() {
            slab.as_mut().fill(value as u8 + 1);
        }
        for (value, slab) in slabs.iter().enumerate() {
            assert!(slab.as_ref().iter().all(|byte| *byte == value as u8 + 1));
        }
        let waiting = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take().map(|slab| slab.index)
        });
        let index = slabs.pop().map(|slab| slab.index);
        assert_eq!(waiting.join().ok(), Some(index));
        drop(slabs);
        assert_eq!(pool.free().parts.len(), 3);
    }
}
