//! Copy loops of x86-64.
//!
//! The loops are written in assembly rather than with intrinsics, so that every build runs the same
//! instructions, and no optimizer replaces them by memcpy. Order and unrolling were the fastest on
//! Zen 5; there software prefetching (`prefetchnta` and `prefetcht0`, 1 to 8 KiB ahead), copying
//! several pages side by side, and loading 256 bytes or more before storing them gained nothing or
//! lost up to a third.

use std::arch::asm;
use std::arch::x86_64::_mm_sfence;
use std::ptr::copy_nonoverlapping;

/// Bytes of a cache line: non-temporal stores write whole lines to memory.
const LINE: usize = 64;

/// Bytes copied per loop iteration.
const ITERATION_BYTES: usize = 4 * LINE;

/// 64-byte loads, non-temporal 64-byte stores.
///
/// # Safety
/// See [`super::CopyFn`]; the CPU has AVX-512F.
#[target_feature(enable = "avx512f")]
pub unsafe fn avx512(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: head, whole iterations and tail are inside the ranges that the caller vouches for;
    // after the head the sink is aligned to a line, as `vmovntdq` requires. The fence orders the
    // stores before any signal of their completion.
    unsafe {
        let parts = AlignedParts::new(from, to, bytes);
        if parts.iterations > 0 {
            asm!(
                ".p2align 5",
                "2:",
                "vmovdqu64 zmm16, [{from}]",
                "vmovntdq [{to}], zmm16",
                "vmovdqu64 zmm17, [{from} + 64]",
                "vmovntdq [{to} + 64], zmm17",
                "vmovdqu64 zmm18, [{from} + 128]",
                "vmovntdq [{to} + 128], zmm18",
                "vmovdqu64 zmm19, [{from} + 192]",
                "vmovntdq [{to} + 192], zmm19",
                "add {from}, 256",
                "add {to}, 256",
                "dec {iterations}",
                "jnz 2b",
                from = inout(reg) from.add(parts.head) => _,
                to = inout(reg) to.add(parts.head) => _,
                iterations = inout(reg) parts.iterations => _,
                out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                options(nostack)
            );
        }
        parts.tail(from, to, bytes);
        _mm_sfence();
    }
}

/// 32-byte loads, non-temporal 32-byte stores.
///
/// # Safety
/// See [`super::CopyFn`]; the CPU has AVX2.
#[target_feature(enable = "avx2")]
pub unsafe fn avx2(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as in `avx512`.
    unsafe {
        let parts = AlignedParts::new(from, to, bytes);
        if parts.iterations > 0 {
            asm!(
                ".p2align 5",
                "2:",
                "vmovdqu ymm0, [{from}]",
                "vmovdqu ymm1, [{from} + 32]",
                "vmovdqu ymm2, [{from} + 64]",
                "vmovdqu ymm3, [{from} + 96]",
                "vmovntdq [{to}], ymm0",
                "vmovntdq [{to} + 32], ymm1",
                "vmovntdq [{to} + 64], ymm2",
                "vmovntdq [{to} + 96], ymm3",
                "vmovdqu ymm4, [{from} + 128]",
                "vmovdqu ymm5, [{from} + 160]",
                "vmovdqu ymm6, [{from} + 192]",
                "vmovdqu ymm7, [{from} + 224]",
                "vmovntdq [{to} + 128], ymm4",
                "vmovntdq [{to} + 160], ymm5",
                "vmovntdq [{to} + 192], ymm6",
                "vmovntdq [{to} + 224], ymm7",
                "add {from}, 256",
                "add {to}, 256",
                "dec {iterations}",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) from.add(parts.head) => _,
                to = inout(reg) to.add(parts.head) => _,
                iterations = inout(reg) parts.iterations => _,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack)
            );
        }
        parts.tail(from, to, bytes);
        _mm_sfence();
    }
}

/// One `rep movsb`: the CPU chooses the method.
///
/// # Safety
/// See [`super::CopyFn`].
pub unsafe fn rep_movsb(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: reads and writes exactly the ranges that the caller vouches for; the direction flag
    // is clear, as the calling convention requires.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
        // Later stores must not overtake those of a string operation (Intel SDM 3A, 9.2.4).
        _mm_sfence();
    }
}

/// Division of a copy: up to the first whole line of the sink, whole iterations, and the tail.
struct AlignedParts {
    head: usize,
    iterations: usize,
}

impl AlignedParts {
    /// Divides a copy, and copies the head.
    ///
    /// # Safety
    /// See [`super::CopyFn`].
    unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Self {
        let head = to.align_offset(LINE).min(bytes);
        // SAFETY: within both ranges.
        unsafe { copy_nonoverlapping(from, to, head) };
        Self { head, iterations: (bytes - head) / ITERATION_BYTES }
    }

    /// Copies the tail.
    ///
    /// # Safety
    /// See [`super::CopyFn`]; the arguments are those of `new`.
    unsafe fn tail(&self, from: *const u8, to: *mut u8, bytes: usize) {
        let done = self.head + self.iterations * ITERATION_BYTES;
        // SAFETY: within both ranges.
        unsafe { copy_nonoverlapping(from.add(done), to.add(done), bytes - done) };
    }
}
