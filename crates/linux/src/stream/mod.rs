//! STREAM loops (McCalpin, 1995).

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod iteration;
#[cfg(target_arch = "x86_64")]
mod x86;

use iteration::{IterationFn, ITERATION_DOUBLES, LINE, SCALAR};
use numaio_machine::workload::{StreamLoop, StreamOp};

/// Maximum doubles of each array per call: the clock and interrupts are checked between calls, and
/// the cost of the final fence is negligible.
const MAX_CALL: usize = (1 << 20) / size_of::<f64>();

/// A STREAM loop that this CPU supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streamer {
    op: StreamOp,
    iterations: IterationFn,
}

/// Whether this CPU supports a loop.
pub fn available(stream_loop: StreamLoop) -> bool {
    Streamer::new(stream_loop, StreamOp::Copy).is_some()
}

impl Streamer {
    /// Returns the loop, or `None` if this CPU does not support it.
    pub fn new(stream_loop: StreamLoop, op: StreamOp) -> Option<Self> {
        Some(Self { op, iterations: select_loop(stream_loop, op)? })
    }

    /// Returns the maximum doubles of each array per call.
    pub fn max_call_len(&self) -> usize {
        MAX_CALL
    }

    /// Writes `count` doubles from `x`, or from `x` and `y`. Non-temporal stores are fenced: on
    /// return the doubles are visible to every CPU.
    ///
    /// Of STREAM's arrays, `x` is `a` of copy and of add, `c` of scale, and `b` of triad; `y` is
    /// the other array that add and triad read; copy and scale ignore it. Read only reads `x`, and
    /// write only writes.
    ///
    /// # Safety
    /// All arrays have that many doubles, the first overlaps no other, and no other thread writes
    /// any or reads the first during the call.
    pub unsafe fn run_raw(&self, to: *mut f64, x: *const f64, y: *const f64, count: usize) {
        let head = to.align_offset(LINE).min(count);
        let iterations = (count - head) / ITERATION_DOUBLES;
        let tail = head + iterations * ITERATION_DOUBLES;
        // SAFETY: head, whole iterations and tail are inside the arrays that the caller vouches
        // for; after the head the first array is aligned to a line. `new` checked the CPU.
        unsafe {
            self.run_scalar(to, x, y, 0..head);
            if iterations > 0 {
                (self.iterations)(to.add(head), x.add(head), y.add(head), iterations);
            }
            self.run_scalar(to, x, y, tail..count);
        }
        fence();
    }

    /// Computes doubles one by one, by the definition of the operation.
    ///
    /// # Safety
    /// As for [`Streamer::run_raw`].
    unsafe fn run_scalar(&self, to: *mut f64, x: *const f64, y: *const f64, places: std::ops::Range<usize>) {
        for place in places {
            // SAFETY: the caller's promise.
            unsafe {
                let (x, y) = (x.add(place), y.add(place));
                *to.add(place) = match self.op {
                    StreamOp::Copy => *x,
                    StreamOp::Scale => SCALAR * *x,
                    StreamOp::Add => *x + *y,
                    StreamOp::Triad => *x + SCALAR * *y,
                    StreamOp::Write => SCALAR,
                    StreamOp::Read => {
                        x.read_volatile();
                        continue;
                    }
                };
            }
        }
    }
}

/// Orders the stores before any signal of their completion.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier accesses no memory.
    unsafe {
        std::arch::asm!("dmb ish", options(nostack, preserves_flags))
    };
}

#[cfg(target_arch = "x86_64")]
use x86::select_loop;

#[cfg(target_arch = "aarch64")]
use aarch64::select_loop;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn select_loop(_: StreamLoop, _: StreamOp) -> Option<IterationFn> {
    None
}

#[cfg(test)]
mod tests;
