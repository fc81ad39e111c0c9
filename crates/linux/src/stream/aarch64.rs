//! STREAM of aarch64: pairs of 16-byte registers.

use super::{one_by_one, Loops, Parts, SCALAR};
use numaio_machine::workload::StreamOp;
use std::arch::asm;

/// Bytes of an array in one turn.
const TURN: usize = 64;

macro_rules! one {
    ($name:ident, $op:expr, $store:literal, [$($line:literal),*]) => {
        /// # Safety
        /// As [`super::super::Loop`].
        pub unsafe fn $name(a: *const f64, b: *const f64, out: *mut f64, bytes: usize) {
            // SAFETY: head, whole turns and tail lie within the ranges that the caller vouches for; a pointer
            // that the operation does not read is only added to. Every aarch64 CPU that runs Linux has these
            // registers.
            unsafe {
                let parts = Parts::new(out, bytes, TURN);
                one_by_one($op, a, b, out, parts.head);
                let (head, done) = (parts.head / 8, (parts.head + parts.turns * TURN) / 8);
                if parts.turns > 0 {
                    asm!(
                        "ld1r {{v16.2d}}, [{scalar}]",
                        "2:",
                        $($line,)*
                        concat!($store, " q0, q1, [{out}]"),
                        concat!($store, " q2, q3, [{out}, #32]"),
                        "add {a}, {a}, #64",
                        "add {b}, {b}, #64",
                        "add {out}, {out}, #64",
                        "subs {turns}, {turns}, #1",
                        "b.ne 2b",
                        a = inout(reg) a.wrapping_add(head) => _,
                        b = inout(reg) b.wrapping_add(head) => _,
                        out = inout(reg) out.add(head) => _,
                        turns = inout(reg) parts.turns => _,
                        scalar = in(reg) &SCALAR,
                        out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                        out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v16") _,
                        options(nostack)
                    );
                }
                one_by_one($op, a.wrapping_add(done), b.wrapping_add(done), out.add(done), parts.tail);
                // Order the stores before anything that says they are done.
                asm!("dmb ish", options(nostack, preserves_flags));
            }
        }
    };
}

macro_rules! loops {
    ($module:ident, $store:literal) => {
        pub mod $module {
            use super::*;
            pub const LOOPS: Loops = [copy, scale, add, triad];
            one!(copy, StreamOp::Copy, $store, ["ldp q0, q1, [{a}]", "ldp q2, q3, [{a}, #32]"]);
            one!(
                scale,
                StreamOp::Scale,
                $store,
                [
                    "ldp q0, q1, [{a}]",
                    "ldp q2, q3, [{a}, #32]",
                    "fmul v0.2d, v0.2d, v16.2d",
                    "fmul v1.2d, v1.2d, v16.2d",
                    "fmul v2.2d, v2.2d, v16.2d",
                    "fmul v3.2d, v3.2d, v16.2d"
                ]
            );
            one!(
                add,
                StreamOp::Add,
                $store,
                [
                    "ldp q0, q1, [{a}]",
                    "ldp q2, q3, [{a}, #32]",
                    "ldp q4, q5, [{b}]",
                    "ldp q6, q7, [{b}, #32]",
                    "fadd v0.2d, v0.2d, v4.2d",
                    "fadd v1.2d, v1.2d, v5.2d",
                    "fadd v2.2d, v2.2d, v6.2d",
                    "fadd v3.2d, v3.2d, v7.2d"
                ]
            );
            one!(
                triad,
                StreamOp::Triad,
                $store,
                [
                    "ldp q0, q1, [{a}]",
                    "ldp q2, q3, [{a}, #32]",
                    "ldp q4, q5, [{b}]",
                    "ldp q6, q7, [{b}, #32]",
                    "fmul v4.2d, v4.2d, v16.2d",
                    "fmul v5.2d, v5.2d, v16.2d",
                    "fmul v6.2d, v6.2d, v16.2d",
                    "fmul v7.2d, v7.2d, v16.2d",
                    "fadd v0.2d, v0.2d, v4.2d",
                    "fadd v1.2d, v1.2d, v5.2d",
                    "fadd v2.2d, v2.2d, v6.2d",
                    "fadd v3.2d, v3.2d, v7.2d"
                ]
            );
        }
    };
}

loops!(ordinary, "stp");
loops!(stnp, "stnp");
