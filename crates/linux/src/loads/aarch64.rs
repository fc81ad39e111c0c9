//! Load loops for aarch64.

use super::read_loop::ReadLoop;
use std::arch::asm;

/// Follows a chain of pointers.
///
/// # Safety
/// As for [`super::follow`], with at least one iteration.
pub unsafe fn follow(mut slot: *const u8, iterations: usize) -> *const u8 {
    // SAFETY: loads only slots that the caller vouches for.
    unsafe {
        asm!(
            "2:",
            ".rept 64",
            "ldr {slot}, [{slot}]",
            ".endr",
            "subs {iterations}, {iterations}, #1",
            "b.ne 2b",
            slot = inout(reg) slot,
            iterations = inout(reg) iterations => _,
            options(nostack, readonly)
        );
    }
    slot
}

/// Returns the read loop of this CPU.
pub fn reader() -> ReadLoop {
    pairs
}

/// # Safety
/// See [`ReadLoop`].
unsafe fn pairs(from: *const u8, iterations: usize) {
    // SAFETY: every iteration reads the next 256 bytes of a range that the caller vouches for.
    unsafe {
        asm!(
            "2:",
            ".irp at, 0, 32, 64, 96, 128, 160, 192, 224",
            "ldp q0, q1, [{from}, #\\at]",
            ".endr",
            "add {from}, {from}, #256",
            "subs {iterations}, {iterations}, #1",
            "b.ne 2b",
            from = inout(reg) from => _,
            iterations = inout(reg) iterations => _,
            out("v0") _, out("v1") _,
            options(nostack, readonly)
        );
    }
}

/// Evicts the cache line of a slot.
///
/// # Safety
/// As for [`super::evict`].
pub unsafe fn evict(slot: *const u8) {
    // SAFETY: the caller's promise; Linux lets user space clean and invalidate lines
    // (`Documentation/arch/arm64/cpu-feature-registers.rst`, SCTLR_EL1.UCI).
    unsafe { asm!("dc civac, {slot}", slot = in(reg) slot, options(nostack, preserves_flags)) }
}

/// Waits for evictions to complete.
pub fn barrier() {
    // SAFETY: a barrier accesses no memory.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) }
}
