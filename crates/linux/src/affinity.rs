//! CPU affinity of threads.

use numaio_machine::ids::CpuId;
use numaio_machine::ids::MAX_ID;
use numaio_machine::probe::ProbeError;
use numaio_machine::set::CpuSet;
use std::io;

/// 64-bit words of a mask for every possible CPU; glibc's `cpu_set_t` is limited to 1,024 CPUs.
const WORDS: usize = (MAX_ID as usize + 1).div_ceil(u64::BITS as usize);

/// Binds the calling thread to one CPU and verifies the resulting mask.
///
/// # Errors
/// [`ProbeError::Refused`] if the CPU does not exist, is offline or is outside the cpuset.
pub fn pin(cpu: CpuId) -> Result<(), ProbeError> {
    let refused =
        |why: String| ProbeError::Refused { call: format!("pin a thread to CPU {cpu}"), reason: why };
    let Some(wanted) = mask_of(cpu) else {
        return Err(refused("the CPU number exceeds the limit of the kernel".to_owned()));
    };
    set(0, &wanted).map_err(|error| refused(error.to_string()))?;
    let got = get(0).map_err(|error| refused(error.to_string()))?;
    if got != wanted {
        return Err(refused("the kernel set a different affinity mask".to_owned()));
    }
    Ok(())
}

/// CPU affinity mask in the kernel's format. [`Mask::apply`] allocates nothing, so it may run
/// between fork and exec.
#[derive(Debug, Clone)]
pub struct Mask(Vec<u64>);

impl Mask {
    /// Returns the mask of `cpus`, without CPU numbers beyond the kernel's limit.
    pub fn of(cpus: &CpuSet) -> Self {
        let mut mask = vec![0u64; WORDS];
        for cpu in cpus.iter() {
            if let Some(word) = mask.get_mut(cpu.0 as usize / 64) {
                *word |= 1 << (cpu.0 % 64);
            }
        }
        Self(mask)
    }

    /// Converts the mask to libc's `cpu_set_t`, or `None` if a CPU number is 1,024 or more.
    pub fn as_cpu_set(&self) -> Option<libc::cpu_set_t> {
        // SAFETY: a plain C struct of numbers.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for (number, word) in self.0.iter().enumerate().filter(|(_, word)| **word != 0) {
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                let cpu = number * 64 + bit;
                if cpu >= libc::CPU_SETSIZE as usize {
                    return None;
                }
                // SAFETY: the CPU is within the set.
                unsafe { libc::CPU_SET(cpu, &mut set) };
            }
        }
        Some(set)
    }

    /// Binds the calling thread. The kernel ignores CPUs that are offline or outside the cpuset.
    ///
    /// # Errors
    /// The kernel's error, if no CPU remains.
    pub fn apply(&self) -> io::Result<()> {
        set(0, &self.0)
    }

    /// Binds a thread of any process.
    ///
    /// # Errors
    /// The kernel's error: the thread ended, permission is missing, or no CPU remains.
    pub fn apply_to(&self, tid: u32) -> io::Result<()> {
        set(thread_id(tid)?, &self.0)
    }
}

fn thread_id(tid: u32) -> io::Result<libc::pid_t> {
    let id = libc::pid_t::try_from(tid).ok().filter(|id| *id > 0);
    id.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

fn mask_of(cpu: CpuId) -> Option<Vec<u64>> {
    let mut mask = vec![0u64; WORDS];
    *mask.get_mut(cpu.0 as usize / 64)? |= 1 << (cpu.0 % 64);
    Some(mask)
}

/// Sets the mask of a thread; 0 is the calling one.
fn set(tid: libc::pid_t, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads that many bytes of the mask, which lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(mask), mask.as_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the mask of a thread; 0 is the calling one.
fn get(tid: libc::pid_t) -> io::Result<Vec<u64>> {
    let mut mask = vec![0u64; WORDS];
    let bytes = size_of_val(mask.as_slice());
    // SAFETY: the kernel writes at most that many bytes into the mask.
    let result = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_to_an_allowed_cpu_and_rejects_a_missing_cpu() {
        let before = get(0).expect("the mask of this thread");
        let first = before.iter().position(|word| *word != 0).expect("a CPU");
        let cpu = CpuId(first as u32 * 64 + before[first].trailing_zeros());
        std::thread::spawn(move || {
            pin(cpu).expect("a CPU of our own");
            assert_eq!(get(0).ok(), mask_of(cpu));
            for absent in [8191, MAX_ID, u32::MAX] {
                assert!(matches!(pin(CpuId(absent)), Err(ProbeError::Refused { .. })), "{absent}");
            }
            assert_eq!(get(0).ok(), mask_of(cpu), "a failed call must not change the mask");
        })
        .join()
        .expect("pinned");
    }
}
