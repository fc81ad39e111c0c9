//! Iterations of the read loops, which each architecture implements.

/// Cache line size of x86-64 and of most aarch64 CPUs, in bytes.
pub const LINE: usize = 64;

/// Bytes read per loop iteration.
pub const READ_PER_ITERATION: usize = 4 * LINE;

/// Reads that many times [`READ_PER_ITERATION`] bytes.
///
/// # Safety
/// The range is valid, and the CPU supports the instructions of the loop.
pub type ReadLoop = unsafe fn(*const u8, usize);
