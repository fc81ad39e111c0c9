//! Pinning of threads to CPUs.

use numaio_linux::affinity::Mask;
use numaio_machine::set::CpuSet;
use std::io;
use std::thread::Builder;

/// Tests whether a thread can be pinned to CPUs, with a thread that exits immediately.
///
/// # Errors
/// I/O error if this process may use none of the CPUs, a sandbox forbids pinning, or no thread can
/// be started.
pub fn can_pin(cpus: &CpuSet) -> io::Result<()> {
    let mask = Mask::of(cpus);
    let tried = Builder::new().name("pin".to_owned()).spawn(move || mask.apply())?;
    tried.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Pins the calling thread. On failure it runs unpinned, which is slower but correct.
pub(super) fn pin_thread(mask: Option<&Mask>) {
    mask.into_iter().for_each(|mask| drop(mask.apply()));
}
