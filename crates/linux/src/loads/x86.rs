//! Load loops for x86-64.

use super::read_loop::ReadLoop;
use std::arch::asm;
use std::arch::x86_64::{_mm_clflush, _mm_mfence};

/// Follows a chain of pointers.
///
/// # Safety
/// As for [`super::follow`], with at least one iteration.
pub unsafe fn follow(mut slot: *const u8, iterations: usize) -> *const u8 {
    // SAFETY: loads only slots that the caller vouches for.
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept 64",
            "mov {slot}, [{slot}]",
            ".endr",
            "dec {iterations}",
            "jnz 2b",
            slot = inout(reg) slot,
            iterations = inout(reg) iterations => _,
            options(nostack, readonly)
        );
    }
    slot
}

/// Returns the read loop with the widest vectors of this CPU.
pub fn reader() -> ReadLoop {
    if is_x86_feature_detected!("avx512f") {
        avx512
    } else if is_x86_feature_detected!("avx2") {
        avx2
    } else {
        sse2
    }
}

/// Defines a loop of loads at given offsets into one register.
macro_rules! read {
    ($name:ident, $feature:literal, $load:literal, $after:literal, $at:literal) => {
        /// # Safety
        /// See [`ReadLoop`].
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, iterations: usize) {
            // SAFETY: every iteration reads the next 256 bytes of a range that the caller vouches
            // for.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    concat!(".irp at, ", $at),
                    concat!($load, " [{from} + \\at]"),
                    ".endr",
                    "add {from}, 256",
                    "dec {iterations}",
                    "jnz 2b",
                    $after,
                    from = inout(reg) from => _,
                    iterations = inout(reg) iterations => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                    out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                    out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                    out("xmm15") _,
                    options(nostack, readonly)
                );
            }
        }
    };
}

read!(avx512, "avx512f", "vmovdqu64 zmm0,", "vzeroupper", "0, 64, 128, 192");
read!(avx2, "avx2", "vmovdqu ymm0,", "vzeroupper", "0, 32, 64, 96, 128, 160, 192, 224");
read!(
    sse2,
    "sse2",
    "movdqu xmm0,",
    "",
    "0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240"
);

/// Evicts the cache line of a slot.
///
/// # Safety
/// As for [`super::evict`].
pub unsafe fn evict(slot: *const u8) {
    // SAFETY: the caller's promise; every x86-64 CPU has it.
    unsafe { _mm_clflush(slot) }
}

/// Waits for evictions to complete.
pub fn barrier() {
    // SAFETY: every x86-64 CPU has it.
    unsafe { _mm_mfence() }
}
