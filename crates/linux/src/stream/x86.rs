//! STREAM of x86-64.
//!
//! In assembly, as the copy loops are: the same instructions run in every build, and no optimiser takes a copy
//! for a memcpy.

use super::{one_by_one, Loops, Parts, SCALAR};
use numaio_machine::workload::StreamOp;
use std::arch::asm;
use std::arch::x86_64::_mm_sfence;

/// A loop over turns of four vectors, with the lines before and after them.
macro_rules! turns {
    ($name:ident, $feature:literal, $op:expr, $turn:literal, [$($line:expr),* $(,)?], [$($reg:tt),*]) => {
        /// # Safety
        /// As [`super::super::Loop`]; the CPU has the feature.
        #[target_feature(enable = $feature)]
        pub unsafe fn $name(a: *const f64, b: *const f64, out: *mut f64, bytes: usize) {
            // SAFETY: head, whole turns and tail lie within the ranges that the caller vouches for, and behind
            // the head the output is aligned to a line. A pointer that the operation does not read is only
            // added to. The fence orders the stores before anything that says they are done.
            unsafe {
                let parts = Parts::new(out, bytes, $turn);
                one_by_one($op, a, b, out, parts.head);
                let (head, done) = (parts.head / 8, (parts.head + parts.turns * $turn) / 8);
                if parts.turns > 0 {
                    asm!(
                        $($line,)*
                        a = inout(reg) a.wrapping_add(head) => _,
                        b = inout(reg) b.wrapping_add(head) => _,
                        out = inout(reg) out.add(head) => _,
                        turns = inout(reg) parts.turns => _,
                        scalar = in(reg) &SCALAR,
                        $(out($reg) _,)*
                        options(nostack)
                    );
                }
                one_by_one($op, a.wrapping_add(done), b.wrapping_add(done), out.add(done), parts.tail);
                _mm_sfence();
            }
        }
    };
}

/// The four operations with three-operand instructions on registers of one width.
macro_rules! vex {
    ($module:ident, $feature:literal, $turn:literal, $step:literal, $offsets:tt, $store:literal, $end:literal,
     $v:literal, $regs:tt) => {
        pub mod $module {
            use super::*;
            pub const LOOPS: Loops = [copy, scale, add, triad];
            vex!(@op copy, $feature, StreamOp::Copy, $turn, $step, $offsets, $store, $end, $v, $regs,
                ["vmovupd ", "", "0, [{a}"], []);
            vex!(@op scale, $feature, StreamOp::Scale, $turn, $step, $offsets, $store, $end, $v, $regs,
                ["vmulpd ", "", "4, [{a}"], []);
            vex!(@op add, $feature, StreamOp::Add, $turn, $step, $offsets, $store, $end, $v, $regs,
                ["vmovupd ", "", "0, [{a}"], ["vaddpd ", "[{b}"]);
            vex!(@op triad, $feature, StreamOp::Triad, $turn, $step, $offsets, $store, $end, $v, $regs,
                ["vmulpd ", "", "4, [{b}"], ["vaddpd ", "[{a}"]);
        }
    };
    (@op $name:ident, $feature:literal, $op:expr, $turn:literal, $step:literal, [$o1:literal, $o2:literal, $o3:literal],
     $store:literal, $end:literal, $v:literal, $regs:tt, $first:tt, $second:tt) => {
        turns!($name, $feature, $op, $turn, [
            concat!("vbroadcastsd ", $v, "4, [{scalar}]"),
            ".p2align 5",
            "2:",
            vex!(@first $v, "0", "", $first), vex!(@second $v, "0", "", $second),
            vex!(@first $v, "1", $o1, $first), vex!(@second $v, "1", $o1, $second),
            vex!(@first $v, "2", $o2, $first), vex!(@second $v, "2", $o2, $second),
            vex!(@first $v, "3", $o3, $first), vex!(@second $v, "3", $o3, $second),
            concat!($store, " [{out}], ", $v, "0"),
            concat!($store, " [{out}", $o1, "], ", $v, "1"),
            concat!($store, " [{out}", $o2, "], ", $v, "2"),
            concat!($store, " [{out}", $o3, "], ", $v, "3"),
            concat!("add {a}, ", $step),
            concat!("add {b}, ", $step),
            concat!("add {out}, ", $step),
            "dec {turns}",
            "jnz 2b",
            $end,
        ], $regs);
    };
    (@first $v:literal, $n:literal, $o:literal, ["vmovupd ", "", "0, [{a}"]) => {
        concat!("vmovupd ", $v, $n, ", [{a}", $o, "]")
    };
    (@first $v:literal, $n:literal, $o:literal, ["vmulpd ", "", $from:literal]) => {
        concat!("vmulpd ", $v, $n, ", ", $v, $from, $o, "]")
    };
    (@second $v:literal, $n:literal, $o:literal, []) => { "" };
    (@second $v:literal, $n:literal, $o:literal, [$what:literal, $from:literal]) => {
        concat!($what, $v, $n, ", ", $v, $n, ", ", $from, $o, "]")
    };
}

vex!(
    avx512,
    "avx512f",
    256,
    "256",
    [" + 64", " + 128", " + 192"],
    "vmovntpd",
    "vzeroupper",
    "zmm",
    ["zmm0", "zmm1", "zmm2", "zmm3", "zmm4"]
);
vex!(
    ordinary_avx512,
    "avx512f",
    256,
    "256",
    [" + 64", " + 128", " + 192"],
    "vmovupd",
    "vzeroupper",
    "zmm",
    ["zmm0", "zmm1", "zmm2", "zmm3", "zmm4"]
);
vex!(
    avx2,
    "avx2",
    128,
    "128",
    [" + 32", " + 64", " + 96"],
    "vmovntpd",
    "vzeroupper",
    "ymm",
    ["ymm0", "ymm1", "ymm2", "ymm3", "ymm4"]
);
vex!(
    ordinary_avx2,
    "avx2",
    128,
    "128",
    [" + 32", " + 64", " + 96"],
    "vmovupd",
    "vzeroupper",
    "ymm",
    ["ymm0", "ymm1", "ymm2", "ymm3", "ymm4"]
);

/// Ordinary stores with what every x86-64 CPU has.
pub mod ordinary_sse2 {
    use super::*;
    pub const LOOPS: Loops = [copy, scale, add, triad];
    macro_rules! sse2 {
        ($name:ident, $op:expr, [$($line:literal),*]) => {
            turns!($name, "sse2", $op, 32, [
                "movsd xmm4, [{scalar}]",
                "unpcklpd xmm4, xmm4",
                ".p2align 5",
                "2:",
                $($line,)*
                "movupd [{out}], xmm0",
                "movupd [{out} + 16], xmm1",
                "add {a}, 32",
                "add {b}, 32",
                "add {out}, 32",
                "dec {turns}",
                "jnz 2b",
            ], ["xmm0", "xmm1", "xmm2", "xmm3", "xmm4"]);
        };
    }
    sse2!(copy, StreamOp::Copy, ["movupd xmm0, [{a}]", "movupd xmm1, [{a} + 16]"]);
    sse2!(
        scale,
        StreamOp::Scale,
        ["movupd xmm0, [{a}]", "movupd xmm1, [{a} + 16]", "mulpd xmm0, xmm4", "mulpd xmm1, xmm4"]
    );
    sse2!(
        add,
        StreamOp::Add,
        [
            "movupd xmm0, [{a}]",
            "movupd xmm1, [{a} + 16]",
            "movupd xmm2, [{b}]",
            "movupd xmm3, [{b} + 16]",
            "addpd xmm0, xmm2",
            "addpd xmm1, xmm3"
        ]
    );
    sse2!(
        triad,
        StreamOp::Triad,
        [
            "movupd xmm0, [{b}]",
            "movupd xmm1, [{b} + 16]",
            "mulpd xmm0, xmm4",
            "mulpd xmm1, xmm4",
            "movupd xmm2, [{a}]",
            "movupd xmm3, [{a} + 16]",
            "addpd xmm0, xmm2",
            "addpd xmm1, xmm3"
        ]
    );
}
