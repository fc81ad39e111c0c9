//! STREAM loops for aarch64, with pairs of 16-byte vectors.

use super::iteration::{IterationFn, SCALAR};
use numaio_machine::workload::{StreamLoop, StreamOp};
use std::arch::asm;

/// Returns the loop of an operation, or `None` if this CPU does not support it.
pub fn select_loop(stream_loop: StreamLoop, op: StreamOp) -> Option<IterationFn> {
    let all: &[IterationFn; StreamOp::ALL.len()] = match stream_loop {
        StreamLoop::Ordinary => &ORDINARY,
        StreamLoop::Stnp => &STNP,
        StreamLoop::Avx512 | StreamLoop::Avx2 => return None,
    };
    Some(all[op as usize])
}

/// Defines a loop by its steps at the offsets `\at` of the pairs in an iteration (Arm ARM, C7.2:
/// `LDP`, `STNP`, `FMUL (by element)`, `FADD (vector)`).
macro_rules! iterations {
    ($name:ident, $($step:expr),+) => {
        /// # Safety
        /// See [`IterationFn`].
        unsafe fn $name(to: *mut f64, x: *const f64, y: *const f64, iterations: usize) {
            // SAFETY: every iteration accesses the next 256 bytes of arrays that the caller vouches
            // for. Every aarch64 CPU that runs Linux in user space has these registers.
            unsafe {
                asm!(
                    "2:",
                    ".irp at, 0, 32, 64, 96, 128, 160, 192, 224",
                    $($step,)+
                    ".endr",
                    "add {x}, {x}, #256",
                    "add {y}, {y}, #256",
                    "add {to}, {to}, #256",
                    "subs {iterations}, {iterations}, #1",
                    "b.ne 2b",
                    to = inout(reg) to => _,
                    x = inout(reg) x => _,
                    y = inout(reg) y => _,
                    iterations = inout(reg) iterations => _,
                    inout("v0") SCALAR => _,
                    out("v1") _, out("v2") _, out("v3") _, out("v4") _,
                    options(nostack)
                );
            }
        }
    };
}

/// Defines the operations with one kind of store, in the order of [`StreamOp`].
macro_rules! operations {
    ($all:ident = [$copy:ident, $scale:ident, $add:ident, $triad:ident, $read:ident, $write:ident],
        $store:literal) => {
        static $all: [IterationFn; StreamOp::ALL.len()] = [$copy, $scale, $add, $triad, $read, $write];
        iterations!($copy, "ldp q1, q2, [{x}, #\\at]", concat!($store, " q1, q2, [{to}, #\\at]"));
        iterations!(
            $scale,
            "ldp q1, q2, [{x}, #\\at]",
            "fmul v1.2d, v1.2d, v0.d[0]",
            "fmul v2.2d, v2.2d, v0.d[0]",
            concat!($store, " q1, q2, [{to}, #\\at]")
        );
        iterations!(
            $add,
            "ldp q1, q2, [{x}, #\\at]",
            "ldp q3, q4, [{y}, #\\at]",
            "fadd v1.2d, v1.2d, v3.2d",
            "fadd v2.2d, v2.2d, v4.2d",
            concat!($store, " q1, q2, [{to}, #\\at]")
        );
        iterations!(
            $triad,
            "ldp q1, q2, [{x}, #\\at]",
            "ldp q3, q4, [{y}, #\\at]",
            "fmul v3.2d, v3.2d, v0.d[0]",
            "fmul v4.2d, v4.2d, v0.d[0]",
            "fadd v1.2d, v1.2d, v3.2d",
            "fadd v2.2d, v2.2d, v4.2d",
            concat!($store, " q1, q2, [{to}, #\\at]")
        );
        iterations!($read, "ldp q1, q2, [{x}, #\\at]");
        iterations!($write, "dup v1.2d, v0.d[0]", concat!($store, " q1, q1, [{to}, #\\at]"));
    };
}

operations!(STNP = [stnp_copy, stnp_scale, stnp_add, stnp_triad, stnp_read, stnp_write], "stnp");
operations!(
    ORDINARY = [ordinary_copy, ordinary_scale, ordinary_add, ordinary_triad, ordinary_read, ordinary_write],
    "stp"
);
