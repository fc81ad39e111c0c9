//! Load loops: dependent loads for latency, and streaming loads for bandwidth.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod read_loop;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use read_loop::LINE;

#[cfg(target_arch = "aarch64")]
use aarch64 as architecture;
#[cfg(target_arch = "x86_64")]
use x86 as architecture;

use read_loop::{ReadLoop, READ_PER_ITERATION};

/// Loads per iteration of [`follow`].
pub const LOADS_PER_ITERATION: usize = 64;

/// Follows a chain of pointers from `slot` for `iterations` times [`LOADS_PER_ITERATION`] dependent
/// loads, and returns the slot where it stopped.
///
/// # Safety
/// `slot` and every slot of the chain contain the address of a slot of the chain, and no other
/// thread writes to them during the call.
pub unsafe fn follow(slot: *const u8, iterations: usize) -> *const u8 {
    if iterations == 0 {
        return slot;
    }
    // SAFETY: the caller's promise.
    unsafe { architecture::follow(slot, iterations) }
}

/// Reads memory in order with the widest vectors of this CPU and discards it.
#[derive(Debug, Clone, Copy)]
pub struct Reader(ReadLoop);

impl Reader {
    /// Selects the loop for this CPU.
    pub fn new() -> Self {
        Self(architecture::reader())
    }

    /// Reads a range.
    ///
    /// # Safety
    /// The range is valid.
    pub unsafe fn read(self, from: *const u8, bytes: usize) {
        let iterations = bytes / READ_PER_ITERATION;
        // SAFETY: whole iterations, and one byte of each remaining line, are inside the range that
        // the caller vouches for; `new` checked the CPU.
        unsafe {
            if iterations > 0 {
                (self.0)(from, iterations);
            }
            for at in (iterations * READ_PER_ITERATION..bytes).step_by(LINE) {
                from.add(at).read_volatile();
            }
        }
    }
}

/// Evicts the cache line of an address from all caches.
///
/// # Safety
/// The address is valid.
pub unsafe fn evict(slot: *const u8) {
    // SAFETY: the caller's promise; content does not change.
    unsafe { architecture::evict(slot) }
}

/// Waits for evictions to complete.
pub fn wait_for_evictions() {
    architecture::barrier();
}

#[cfg(test)]
mod tests;
