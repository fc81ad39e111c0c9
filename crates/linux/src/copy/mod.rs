//! Loops that copy memory.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

use numaio_machine::workload::CopyLoop;

/// Length of a call to what chooses its way by length: long enough for the way of long copies (non-temporal
/// stores) of most machines.
const LONG_CALL: usize = 16 << 20;

/// Length of a call to a loop that is the same at any length: the fence at its end, which waits for the last
/// stores, costs nothing beside it.
const SHORT_CALL: usize = 1 << 20;

/// Copies bytes from the first address to the second.
///
/// # Safety
/// Both ranges are valid, do not overlap, and nobody else writes the first or touches the second meanwhile.
/// The CPU has what the loop is made of.
type CopyFn = unsafe fn(*const u8, *mut u8, usize);

/// A loop that this CPU can run.
#[derive(Debug, Clone, Copy)]
pub struct Copier {
    copy: CopyFn,
    max_call_len: usize,
}

/// Whether this CPU can run a loop.
pub fn available(copy_loop: CopyLoop) -> bool {
    Copier::new(copy_loop).is_some()
}

impl Copier {
    /// The loop; none if this CPU cannot run it.
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

    /// Bytes that one call should get at most, so that between two calls time can be taken and an interrupt
    /// noticed. The same on every machine and for every pair of nodes: a call's length may decide how it is
    /// done, and then flows would no longer be compared by the same means.
    pub(crate) fn max_call_len(&self) -> usize {
        self.max_call_len
    }

    /// Copies as many bytes as both slices have. When it returns, they are on their way to memory and seen
    /// by every CPU: non-temporal stores are fenced.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        let bytes = from.len().min(to.len());
        // SAFETY: both slices have that many bytes, and a mutable one overlaps no other; `new` has made sure
        // of the CPU.
        unsafe { (self.copy)(from.as_ptr(), to.as_mut_ptr(), bytes) }
    }

    /// Copies between two places.
    ///
    /// # Safety
    /// Both ranges are valid, do not overlap, and nobody else writes the first or touches the second
    /// meanwhile.
    pub(crate) unsafe fn copy_raw(&self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise; `new` has made sure of the CPU.
        unsafe { (self.copy)(from, to, bytes) }
    }
}

/// The C library whose `memcpy` this program calls, with its version where it tells: `glibc 2.36`, `musl`. Two
/// programs of which it differs copy by different means.
pub fn c_library() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: gives a constant string of the library, which ends with a zero.
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

/// `memcpy` of the C library this program is linked with: glibc's chooses non-temporal stores for copies
/// longer than about three quarters of a thread's share of the last-level cache, musl's is `rep movsq`.
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
        // Without "enhanced rep movsb" the CPU moves it byte by byte.
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
