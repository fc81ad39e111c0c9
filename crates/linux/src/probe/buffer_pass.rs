//! A pass over the buffers of a thread.

use crate::memory::Buffer;
use numaio_machine::probe::ProbeError;

/// A pass over buffers, made in parts between which the clock is read.
pub trait BufferPass: Send {
    /// Faults in the buffers on the thread that uses them.
    fn prepare(&mut self) -> Result<(), ProbeError>;
    /// Returns all buffers.
    fn buffers(&self) -> Vec<&Buffer>;
    /// Returns the bytes of a pass, counted in one buffer.
    fn bytes(&self) -> usize;
    /// Returns the maximum bytes per part.
    fn max_part_bytes(&self) -> usize;
    /// Processes the part of a pass that begins at byte `at`.
    fn part(&mut self, at: usize, bytes: usize);
}

/// Bytes of all threads in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Bytes of their passes.
    pub bytes: u64,
    /// Its length in nanoseconds.
    pub ns: u64,
}
