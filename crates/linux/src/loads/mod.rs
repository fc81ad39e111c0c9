//! Loads: a chain of them, and as many as can be.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use aarch64 as architecture;
#[cfg(target_arch = "x86_64")]
use x86 as architecture;

/// A cache line of x86-64 and of most aarch64.
pub const LINE: usize = 64;

/// Loads that one turn of [`follow`] makes.
pub const LOADS_PER_ITERATION: usize = 64;

/// Follows a chain of pointers from `slot`; gives the place where it stopped, after `iterations` times
/// [`LOADS_PER_ITERATION`] loads. Each load waits for the one before.
///
/// # Safety
/// `slot` and every place of the chain holds the address of a place of the chain, and nobody writes there
/// meanwhile.
pub unsafe fn follow(slot: *const u8, iterations: usize) -> *const u8 {
    if iterations == 0 {
        return slot;
    }
    // SAFETY: the caller's promise.
    unsafe { architecture::follow(slot, iterations) }
}

/// Reads memory in order with the widest vectors of this CPU, and drops it.
#[derive(Debug, Clone, Copy)]
pub struct Reader(ReadLoop);

/// Reads that many times [`READ_PER_ITERATION`] bytes.
///
/// # Safety
/// The range is valid. The CPU has what the loop is made of.
type ReadLoop = unsafe fn(*const u8, usize);

/// Bytes that a turn of a reading loop reads.
const READ_PER_ITERATION: usize = 4 * LINE;

impl Reader {
    /// The loop of this CPU.
    pub fn new() -> Self {
        Self(architecture::reader())
    }

    /// Reads a range.
    ///
    /// # Safety
    /// The range is valid.
    pub unsafe fn read(self, from: *const u8, bytes: usize) {
        let iterations = bytes / READ_PER_ITERATION;
        // SAFETY: whole iterations, and then one byte of each line that is left, lie within the range that the caller
        // vouches for; `new` has made sure of the CPU.
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

/// Takes the line of a place out of all caches.
///
/// # Safety
/// The place is valid.
pub unsafe fn evict(slot: *const u8) {
    // SAFETY: the caller's promise; content does not change.
    unsafe { architecture::evict(slot) }
}

/// Waits until all that was evicted is out.
pub fn wait_for_evictions() {
    architecture::barrier();
}

#[cfg(test)]
mod tests;
