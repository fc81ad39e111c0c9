//! Memory copy loops.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

use numaio_machine::workload::CopyLoop;

/// Bytes per call for loops that choose a method by length: enough for the method of long copies
/// (non-temporal stores) on most machines.
const LONG_CALL: usize = 16 << 20;

/// Bytes per call for loops that are the same at any length: enough to make the cost of the final
/// fence, which waits for the last stores, negligible.
const SHORT_CALL: usize = 1 << 20;

/// Copies bytes from the first address to the second.
///
/// # Safety
/// Both ranges are valid and do not overlap, no other thread writes the first or accesses the
/// second during the call, and the CPU supports the instructions of the loop.
type CopyFn = unsafe fn(*const u8, *mut u8, usize);

/// A copy loop that this CPU supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copier {
    copy: CopyFn,
    max_call_len: usize,
}

/// Whether this CPU supports a loop.
pub fn available(copy_loop: CopyLoop) -> bool {
    Copier::new(copy_loop).is_some()
}

impl Copier {
    /// Returns the loop, or `None` if this CPU does not support it.
    pub fn new(copy_loop: CopyLoop) -> Option<Self> {
        let copy: CopyFn = match copy_loop {
            CopyLoop::Memcpy => memcpy,
            other => select_loop(other)?,
        };
        let max_call_len = match copy_loop {
            CopyLoop::Memcpy | CopyLoop::RepMovsb => LONG_CALL,
            CopyLoop::Avx512 | CopyLoop::Avx2 | CopyLoop::Stnp => SHORT_CALL,
        };
        Some(Self { copy, max_call_len })
    }

    /// Returns the maximum bytes per call; the clock and interrupts are checked between calls. It
    /// is the same on every machine and for every pair of nodes, because the length of a call can
    /// determine the method, and flows must be compared by the same method.
    pub fn max_call_len(&self) -> usize {
        self.max_call_len
    }

    /// Copies between two addresses. Non-temporal stores are fenced: on return the bytes are
    /// visible to every CPU.
    ///
    /// # Safety
    /// Both ranges are valid and do not overlap, and no other thread writes the first or accesses
    /// the second during the call.
    pub unsafe fn copy_raw(&self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise; `new` checked the CPU.
        unsafe { (self.copy)(from, to, bytes) }
    }
}

/// Returns the C library whose `memcpy` is called, with its version if known: `glibc 2.36`, `musl`.
/// Measurements with different C libraries are not comparable.
pub fn c_library() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: returns a constant, null-terminated string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(target_env = "musl")]
    {
        "musl".to_owned()
    }
    #[cfg(not(any(target_env = "gnu", target_env = "musl")))]
    {
        "unknown C library".to_owned()
    }
}

/// `memcpy` of the linked C library: glibc chooses non-temporal stores for copies longer than about
/// three quarters of a thread's share of the last-level cache; musl uses `rep movsq`.
unsafe fn memcpy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::memcpy(to.cast(), from.cast(), bytes) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

#[cfg(target_arch = "x86_64")]
fn select_loop(copy_loop: CopyLoop) -> Option<CopyFn> {
    match copy_loop {
        CopyLoop::Avx512 if is_x86_feature_detected!("avx512f") => Some(x86::avx512),
        CopyLoop::Avx2 if is_x86_feature_detected!("avx2") => Some(x86::avx2),
        // Without "enhanced rep movsb" the CPU copies byte by byte.
        CopyLoop::RepMovsb if is_x86_feature_detected!("ermsb") => Some(x86::rep_movsb),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn select_loop(copy_loop: CopyLoop) -> Option<CopyFn> {
    (copy_loop == CopyLoop::Stnp).then_some(aarch64::stnp as CopyFn)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn select_loop(_: CopyLoop) -> Option<CopyFn> {
    None
}

#[cfg(test)]
mod tests;
