//! Copy loops of aarch64.

use std::arch::asm;
use std::ptr::copy_nonoverlapping;

/// Bytes of a cache line and of one loop iteration.
const LINE: usize = 64;

/// Loads and non-temporal stores of pairs of 16-byte registers (Arm ARM, C6.2 `STNP (SIMD&FP)`).
///
/// # Safety
/// See [`super::CopyFn`].
pub unsafe fn stnp(from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.align_offset(LINE).min(bytes);
    let iterations = (bytes - head) / LINE;
    let tail = head + iterations * LINE;
    // SAFETY: every access is inside the ranges that the caller vouches for: the head, `iterations`
    // lines and the tail. Every aarch64 CPU that runs Linux in user space has these registers.
    unsafe {
        copy_nonoverlapping(from, to, head);
        if iterations > 0 {
            asm!(
                "2:",
                "ldp {a:q}, {b:q}, [{from}]",
                "ldp {c:q}, {d:q}, [{from}, #32]",
                "add {from}, {from}, #64",
                "stnp {a:q}, {b:q}, [{to}]",
                "stnp {c:q}, {d:q}, [{to}, #32]",
                "add {to}, {to}, #64",
                "subs {iterations}, {iterations}, #1",
                "b.ne 2b",
                from = inout(reg) from.add(head) => _,
                to = inout(reg) to.add(head) => _,
                iterations = inout(reg) iterations => _,
                a = out(vreg) _,
                b = out(vreg) _,
                c = out(vreg) _,
                d = out(vreg) _,
                options(nostack)
            );
        }
        copy_nonoverlapping(from.add(tail), to.add(tail), bytes - tail);
        // Orders the stores before any signal of their completion.
        asm!("dmb ish", options(nostack, preserves_flags));
    }
}
