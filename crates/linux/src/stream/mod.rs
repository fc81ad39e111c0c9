//! Loops of STREAM (McCalpin, 1995) on arrays of doubles.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

use numaio_machine::workload::{StreamLoop, StreamOp};

/// The number that scale and triad multiply by, as in STREAM.
pub const SCALAR: f64 = 3.0;

/// Bytes of an array that one call should get at most, so that between two calls time can be taken and an
/// interrupt noticed. Long enough that the fence at a call's end costs nothing beside it.
const CALL: usize = 1 << 20;

/// Runs one operation: reads `bytes` of the first pointer, and for add and triad of the second, and writes as many
/// to the third.
///
/// # Safety
/// All ranges are valid and aligned to a double, the written one overlaps none of the others, and nobody else
/// writes the first two or touches the third meanwhile. `bytes` is a multiple of 8. The CPU has what the loop is
/// made of.
type Loop = unsafe fn(*const f64, *const f64, *mut f64, usize);

/// The loops of one kind, in the order of [`StreamOp::ALL`].
type Loops = [Loop; 4];

/// A loop that this CPU can run.
#[derive(Debug, Clone, Copy)]
pub struct Streamer {
    op: StreamOp,
    run: Loop,
}

/// Whether this CPU can run loops of a kind.
pub fn available(stream_loop: StreamLoop) -> bool {
    loops(stream_loop).is_some()
}

impl Streamer {
    /// The loop; none if this CPU cannot run it.
    pub fn new(op: StreamOp, stream_loop: StreamLoop) -> Option<Self> {
        let index = StreamOp::ALL.iter().position(|other| *other == op)?;
        Some(Self { op, run: loops(stream_loop)?[index] })
    }

    /// Arrays that the operation reads.
    pub fn inputs(&self) -> usize {
        self.op.arrays() as usize - 1
    }

    /// Bytes of an array that one call should get at most.
    pub(crate) fn longest_call(&self) -> usize {
        CALL
    }

    /// Runs the operation on as many elements as all slices have; copy and scale pass `b` over. When it
    /// returns, the results are on their way to memory and seen by every CPU.
    pub fn run(&self, a: &[f64], b: &[f64], out: &mut [f64]) {
        let elements = a.len().min(out.len());
        let elements = if self.inputs() == 2 { elements.min(b.len()) } else { elements };
        // SAFETY: the slices have that many elements each, and a mutable one overlaps no other; `new` has made
        // sure of the CPU.
        unsafe { (self.run)(a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), elements * 8) }
    }

    /// Runs the operation between places.
    ///
    /// # Safety
    /// As [`Loop`], but for the CPU.
    pub(crate) unsafe fn run_raw(&self, a: *const f64, b: *const f64, out: *mut f64, bytes: usize) {
        // SAFETY: the caller's promise; `new` has made sure of the CPU.
        unsafe { (self.run)(a, b, out, bytes) }
    }
}

#[cfg(target_arch = "x86_64")]
fn loops(stream_loop: StreamLoop) -> Option<Loops> {
    let (avx512, avx2) = (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2"));
    match stream_loop {
        StreamLoop::Ordinary if avx512 => Some(x86::ordinary_avx512::LOOPS),
        StreamLoop::Ordinary if avx2 => Some(x86::ordinary_avx2::LOOPS),
        StreamLoop::Ordinary => Some(x86::ordinary_sse2::LOOPS),
        StreamLoop::Avx512 if avx512 => Some(x86::avx512::LOOPS),
        StreamLoop::Avx2 if avx2 => Some(x86::avx2::LOOPS),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn loops(stream_loop: StreamLoop) -> Option<Loops> {
    match stream_loop {
        StreamLoop::Ordinary => Some(aarch64::ordinary::LOOPS),
        StreamLoop::Stnp => Some(aarch64::stnp::LOOPS),
        StreamLoop::Avx512 | StreamLoop::Avx2 => None,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn loops(_: StreamLoop) -> Option<Loops> {
    None
}

/// A cache line: non-temporal stores go to memory by whole lines.
const LINE: usize = 64;

/// How an array is cut: up to the first whole line of the output, whole turns, and what is left; in bytes.
struct Parts {
    head: usize,
    turns: usize,
    tail: usize,
}

impl Parts {
    fn new(out: *const f64, bytes: usize, turn: usize) -> Self {
        let head = (out.addr().next_multiple_of(LINE) - out.addr()).min(bytes);
        let turns = (bytes - head) / turn;
        Self { head, turns, tail: bytes - head - turns * turn }
    }
}

/// One element after the other: what vectors leave over.
///
/// # Safety
/// As [`Loop`].
unsafe fn one_by_one(op: StreamOp, a: *const f64, b: *const f64, out: *mut f64, bytes: usize) {
    for index in 0..bytes / 8 {
        // SAFETY: within the ranges that the caller vouches for; `b` is only read by operations that have it.
        unsafe {
            let value = match op {
                StreamOp::Copy => *a.add(index),
                StreamOp::Scale => SCALAR * *a.add(index),
                StreamOp::Add => *a.add(index) + *b.add(index),
                StreamOp::Triad => *a.add(index) + SCALAR * *b.add(index),
            };
            *out.add(index) = value;
        }
    }
}

#[cfg(test)]
mod tests;
