//! STREAM loops for x86-64, in assembly for the same reasons as the copy loops.
//!
//! A loop reads, computes and writes line by line, four lines per iteration. Multiplication and
//! addition are not fused, as in the definition; memory is slower than both.

use super::iteration::{IterationFn, SCALAR};
use numaio_machine::workload::{StreamLoop, StreamOp};
use std::arch::asm;

/// Number of operations.
const OPS: usize = StreamOp::ALL.len();

/// Returns the loop of an operation, or `None` if this CPU does not support it.
pub fn select_loop(stream_loop: StreamLoop, op: StreamOp) -> Option<IterationFn> {
    let all: &[IterationFn; OPS] = match stream_loop {
        StreamLoop::Avx512 if is_x86_feature_detected!("avx512f") => &AVX512,
        StreamLoop::Avx2 if is_x86_feature_detected!("avx2") => &AVX2,
        StreamLoop::Ordinary => ordinary().next()?.1,
        StreamLoop::Avx512 | StreamLoop::Avx2 | StreamLoop::Stnp => return None,
    };
    Some(all[op as usize])
}

/// Returns the loops with ordinary stores that this CPU supports, the widest vectors first.
pub fn ordinary() -> impl Iterator<Item = (&'static str, &'static [IterationFn; OPS])> {
    let avx512 = is_x86_feature_detected!("avx512f").then_some(("avx512", &ORDINARY_AVX512));
    let avx2 = is_x86_feature_detected!("avx2").then_some(("avx2", &ORDINARY_AVX2));
    [avx512, avx2, Some(("sse2", &ORDINARY_SSE2))].into_iter().flatten()
}

/// Defines a loop: instructions before the first and after the last iteration, the offsets of the
/// vectors in an iteration, and the steps at each offset `\at`.
macro_rules! iterations {
    ($name:ident, $feature:literal, $before:expr, $after:literal, $at:literal, $($step:expr),+) => {
        /// # Safety
        /// See [`IterationFn`]; the CPU supports the instructions that the loop is named for.
        #[target_feature(enable = $feature)]
        unsafe fn $name(to: *mut f64, x: *const f64, y: *const f64, iterations: usize) {
            // SAFETY: every iteration accesses the next 256 bytes of arrays that the caller vouches
            // for, and the written array is aligned to a line, as these stores require.
            unsafe {
                asm!(
                    $before,
                    ".p2align 5",
                    "2:",
                    concat!(".irp at, ", $at),
                    $($step,)+
                    ".endr",
                    "add {x}, 256",
                    "add {y}, 256",
                    "add {to}, 256",
                    "dec {iterations}",
                    "jnz 2b",
                    $after,
                    to = inout(reg) to => _,
                    x = inout(reg) x => _,
                    y = inout(reg) y => _,
                    iterations = inout(reg) iterations => _,
                    inout("xmm0") SCALAR => _,
                    out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _,
                    out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack)
                );
            }
        }
    };
}

/// Defines the operations for a vector width `$v` and a store, in the order of [`StreamOp`].
macro_rules! operations {
    ($all:ident = [$copy:ident, $scale:ident, $add:ident, $triad:ident, $read:ident, $write:ident],
        $feature:literal, $v:literal, $at:literal, $store:literal) => {
        static $all: [IterationFn; OPS] = [$copy, $scale, $add, $triad, $read, $write];
        iterations!(
            $copy,
            $feature,
            "",
            "vzeroupper",
            $at,
            concat!("vmovupd ", $v, "1, [{x} + \\at]"),
            concat!($store, " [{to} + \\at], ", $v, "1")
        );
        iterations!(
            $scale,
            $feature,
            concat!("vbroadcastsd ", $v, "0, xmm0"),
            "vzeroupper",
            $at,
            concat!("vmulpd ", $v, "1, ", $v, "0, [{x} + \\at]"),
            concat!($store, " [{to} + \\at], ", $v, "1")
        );
        iterations!(
            $add,
            $feature,
            "",
            "vzeroupper",
            $at,
            concat!("vmovupd ", $v, "1, [{x} + \\at]"),
            concat!("vaddpd ", $v, "1, ", $v, "1, [{y} + \\at]"),
            concat!($store, " [{to} + \\at], ", $v, "1")
        );
        iterations!(
            $triad,
            $feature,
            concat!("vbroadcastsd ", $v, "0, xmm0"),
            "vzeroupper",
            $at,
            concat!("vmulpd ", $v, "1, ", $v, "0, [{y} + \\at]"),
            concat!("vaddpd ", $v, "1, ", $v, "1, [{x} + \\at]"),
            concat!($store, " [{to} + \\at], ", $v, "1")
        );
        iterations!($read, $feature, "", "vzeroupper", $at, concat!("vmovupd ", $v, "1, [{x} + \\at]"));
        iterations!(
            $write,
            $feature,
            concat!("vbroadcastsd ", $v, "0, xmm0"),
            "vzeroupper",
            $at,
            concat!($store, " [{to} + \\at], ", $v, "0")
        );
    };
}

operations!(
    AVX512 = [avx512_copy, avx512_scale, avx512_add, avx512_triad, avx512_read, avx512_write],
    "avx512f",
    "zmm",
    "0, 64, 128, 192",
    "vmovntpd"
);
operations!(
    ORDINARY_AVX512 = [
        ordinary_avx512_copy,
        ordinary_avx512_scale,
        ordinary_avx512_add,
        ordinary_avx512_triad,
        ordinary_avx512_read,
        ordinary_avx512_write
    ],
    "avx512f",
    "zmm",
    "0, 64, 128, 192",
    "vmovapd"
);
operations!(
    AVX2 = [avx2_copy, avx2_scale, avx2_add, avx2_triad, avx2_read, avx2_write],
    "avx2",
    "ymm",
    "0, 32, 64, 96, 128, 160, 192, 224",
    "vmovntpd"
);
operations!(
    ORDINARY_AVX2 = [
        ordinary_avx2_copy,
        ordinary_avx2_scale,
        ordinary_avx2_add,
        ordinary_avx2_triad,
        ordinary_avx2_read,
        ordinary_avx2_write
    ],
    "avx2",
    "ymm",
    "0, 32, 64, 96, 128, 160, 192, 224",
    "vmovapd"
);

static ORDINARY_SSE2: [IterationFn; OPS] = [
    ordinary_sse2_copy,
    ordinary_sse2_scale,
    ordinary_sse2_add,
    ordinary_sse2_triad,
    ordinary_sse2_read,
    ordinary_sse2_write,
];

/// Defines a loop with 16-byte vectors, which every x86-64 CPU has.
macro_rules! sse2 {
    ($name:ident, $($step:literal),+) => {
        iterations!($name, "sse2", "unpcklpd xmm0, xmm0", "", "0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240",
            $($step),+);
    };
}

sse2!(ordinary_sse2_copy, "movupd xmm1, [{x} + \\at]", "movapd [{to} + \\at], xmm1");
sse2!(ordinary_sse2_scale, "movupd xmm1, [{x} + \\at]", "mulpd xmm1, xmm0", "movapd [{to} + \\at], xmm1");
sse2!(
    ordinary_sse2_add,
    "movupd xmm1, [{x} + \\at]",
    "movupd xmm2, [{y} + \\at]",
    "addpd xmm1, xmm2",
    "movapd [{to} + \\at], xmm1"
);
sse2!(
    ordinary_sse2_triad,
    "movupd xmm1, [{y} + \\at]",
    "mulpd xmm1, xmm0",
    "movupd xmm2, [{x} + \\at]",
    "addpd xmm1, xmm2",
    "movapd [{to} + \\at], xmm1"
);
sse2!(ordinary_sse2_read, "movupd xmm1, [{x} + \\at]");
sse2!(ordinary_sse2_write, "movapd [{to} + \\at], xmm0");
