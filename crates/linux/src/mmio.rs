//! Reads of a register of a PCI device from one CPU.
//!
//! The kernel maps a base address register by its file in sysfs, uncached
//! (`Documentation/PCI/sysfs-pci.rst`).

use crate::clock::nanoseconds;
use crate::interrupt::interrupted;
use crate::memory::page_bytes;
use crate::probe::team::{self, EarlyExit};
use crate::refusal::refused;
use crate::Root;
use numaio_machine::devices::{bar_file, MmioRegister};
use numaio_machine::probe::{MmioOutcome, ProbeError};
use numaio_machine::workload::MmioWorkload;
use rustix::fd::AsRawFd;
use rustix::fs::OFlags;
use std::io;
use std::ptr;
use std::time::Instant;

/// Readings of the clock alone, to measure their time.
const CLOCK_READINGS: usize = 1000;

/// Value of a read that no device answers.
const NO_ANSWER: u32 = u32::MAX;

/// Reads a register repeatedly, each time after the end of the previous read.
pub fn run(root: &Root, workload: &MmioWorkload) -> Result<MmioOutcome, ProbeError> {
    let began = Instant::now();
    check_limits(workload)?;
    let mapping = RegisterMapping::new(root, workload.register)?;
    let work = |_: &team::ThreadTeam, mapping: RegisterMapping| measure(&mapping, workload);
    let outcomes = team::run_pinned("mmio", vec![(workload.cpu, mapping)], work)?;
    match outcomes.into_iter().next() {
        Some(outcome) => Ok(MmioOutcome { elapsed_ns: nanoseconds(began), ..outcome }),
        None => refused("mmio", "no thread has run"),
    }
}

fn check_limits(workload: &MmioWorkload) -> Result<(), ProbeError> {
    let reads = u64::from(workload.reads) * u64::from(workload.slices);
    if !(1..=MmioWorkload::MAX_READS).contains(&reads) {
        return refused(
            "mmio",
            format!("{reads} reads, expected a number from 1 to {}", MmioWorkload::MAX_READS),
        );
    }
    if !workload.register.is_aligned() {
        return refused("mmio", format!("{} is not aligned", workload.register));
    }
    Ok(())
}

/// Measures a warm-up of one slice, then all slices.
fn measure(mapping: &RegisterMapping, workload: &MmioWorkload) -> Result<MmioOutcome, EarlyExit> {
    let clock: Vec<u64> = (0..CLOCK_READINGS).map(|_| time(|| {}).1).collect();
    let mut all_ones = 0;
    let mut slices = Vec::new();
    read_slice(mapping, workload.reads)?;
    for _ in 0..workload.slices {
        let (times, ones) = read_slice(mapping, workload.reads)?;
        slices.push(times);
        all_ones += ones;
    }
    Ok(MmioOutcome { all_ones, ..MmioOutcome::of_slices(&slices, &clock) })
}

/// Returns the times of reads, and the number of them that nothing answered.
fn read_slice(mapping: &RegisterMapping, reads: u32) -> Result<(Vec<u64>, u64), EarlyExit> {
    let mut times = Vec::with_capacity(reads as usize);
    let mut all_ones = 0;
    for _ in 0..reads {
        let (value, ns) = time(|| mapping.read());
        all_ones += u64::from(value == NO_ANSWER);
        times.push(ns);
        if interrupted() {
            return Err(EarlyExit::Failed(ProbeError::Interrupted));
        }
    }
    Ok((times, all_ones))
}

/// Returns the value of an action, and its time in nanoseconds with one reading of the clock.
fn time<T>(action: impl FnOnce() -> T) -> (T, u64) {
    let began = Instant::now();
    let value = action();
    complete_loads();
    (value, nanoseconds(began))
}

/// Waits until all earlier loads are complete: a reading of the clock does not depend on them.
#[cfg(target_arch = "x86_64")]
fn complete_loads() {
    // SAFETY: the barrier changes neither registers nor memory.
    unsafe { std::arch::asm!("lfence", options(nostack, preserves_flags)) };
}

/// Waits until all earlier loads are complete: a reading of the clock does not depend on them.
#[cfg(target_arch = "aarch64")]
fn complete_loads() {
    // SAFETY: the barrier changes neither registers nor memory.
    unsafe { std::arch::asm!("dsb ld", options(nostack, preserves_flags)) };
}

/// The page of a register in this process, unmapped when dropped.
struct RegisterMapping {
    page: usize,
    bytes: usize,
    register: usize,
}

impl RegisterMapping {
    fn new(root: &Root, register: MmioRegister) -> Result<Self, ProbeError> {
        let MmioRegister { pci, bar, offset } = register;
        let fail = |what: &str, why: String| {
            Err(ProbeError::Refused { call: format!("{what} BAR {bar} of {pci}"), reason: why })
        };
        let file = match root.open_file(&bar_file(pci, bar), OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) => return fail("open", io::Error::from(error).to_string()),
        };
        // A page beyond the end could be mapped, and reads of it would end the process.
        let size = match rustix::fs::fstat(&file) {
            Ok(found) => u64::try_from(found.st_size).unwrap_or(0),
            Err(error) => return fail("open", io::Error::from(error).to_string()),
        };
        let width = size_of::<u32>() as u64;
        if offset.checked_add(width).is_none_or(|end| end > size) {
            return fail("map", format!("offset {offset:#x} is beyond its {size:#x} bytes"));
        }
        let bytes = page_bytes();
        let within = offset % bytes as u64;
        let Ok(from) = libc::off_t::try_from(offset - within) else {
            return fail("map", format!("offset {offset:#x} is too large"));
        };
        // SAFETY: a new mapping at an address that the kernel chooses; the descriptor is open.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), from)
        };
        if page == libc::MAP_FAILED {
            return fail("map", io::Error::last_os_error().to_string());
        }
        let page = page as usize;
        Ok(Self { page, bytes, register: page + within as usize })
    }

    /// Reads the register once.
    fn read(&self) -> u32 {
        // SAFETY: the register is aligned, inside the mapping and inside the file; any bits are a
        // value.
        unsafe { ptr::read_volatile(self.register as *const u32) }
    }
}

impl Drop for RegisterMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.page as *mut libc::c_void, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::ids::CpuId;
    use numaio_machine::probe::{Outcome, Probe};
    use numaio_machine::workload::Workload;
    use std::fs;
    use std::path::PathBuf;

    const PCI: &str = "0000:03:00.0";

    /// A root directory whose only device has regular files as base address registers.
    struct FakeRoot(PathBuf);

    impl FakeRoot {
        fn new(name: &str, bar: &[u8]) -> Self {
            let dir = std::env::temp_dir().join(format!("numaio-mmio-{name}-{}", std::process::id()));
            let device = dir.join("sys/bus/pci/devices").join(PCI);
            fs::create_dir_all(&device).expect("directories");
            fs::write(device.join("resource0"), bar).expect("a file");
            Self(dir)
        }

        fn root(&self) -> Root {
            Root::open(&self.0).expect("a root")
        }
    }

    impl Drop for FakeRoot {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    impl Probe for FakeRoot {
        fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
            match workload {
                Workload::Mmio(mmio) => run(&self.root(), mmio).map(Outcome::Mmio),
                _ => Err(ProbeError::OtherOutcome),
            }
        }
    }

    fn workload(offset: u64) -> MmioWorkload {
        // SAFETY: the call has no preconditions.
        let cpu = unsafe { libc::sched_getcpu() };
        MmioWorkload {
            register: MmioRegister { pci: PCI.parse().expect("an address"), bar: 0, offset },
            cpu: CpuId(u32::try_from(cpu).expect("a CPU")),
            reads: 10,
            slices: 2,
        }
    }

    #[test]
    fn implementation_passes_the_conformance_test() {
        conformance::mmio(&FakeRoot::new("seam", &[0; 16384]), &workload(8));
        conformance::mmio(&FakeRoot::new("page", &[0; 16384]), &workload(3 * 4096 + 8));
    }

    #[test]
    fn reads_the_register_at_the_offset() {
        let mut content = vec![0u8; 8192];
        content[4100..4104].copy_from_slice(&0x0001_0400u32.to_ne_bytes());
        let fake = FakeRoot::new("value", &content);
        let value = |offset| {
            RegisterMapping::new(&fake.root(), workload(offset).register).map(|mapping| mapping.read())
        };
        assert_eq!((value(4100), value(8188)), (Ok(0x0001_0400), Ok(0)));
        let beyond = value(8192).expect_err("beyond the file").to_string();
        assert_eq!(beyond, "map BAR 0 of 0000:03:00.0: offset 0x2000 is beyond its 0x2000 bytes");
        assert!(value(u64::MAX - 3).is_err());
    }

    #[test]
    fn counts_reads_that_nothing_answers() {
        let ones = run(&FakeRoot::new("ones", &[0xff; 4096]).root(), &workload(0)).expect("an outcome");
        assert_eq!((ones.all_ones, ones.reads), (20, 20));
        let zeros = run(&FakeRoot::new("zeros", &[0; 4096]).root(), &workload(0)).expect("an outcome");
        assert_eq!(zeros.all_ones, 0);
    }

    #[test]
    fn missing_files_are_refused_with_the_error_of_the_kernel() {
        let fake = FakeRoot::new("absent", &[0; 4096]);
        let other = |bar| MmioRegister { bar, ..workload(0).register };
        let error = RegisterMapping::new(&fake.root(), other(1)).err().expect("no file").to_string();
        assert_eq!(error, "open BAR 1 of 0000:03:00.0: No such file or directory (os error 2)");
        let directory = fake.0.join("sys/bus/pci/devices").join(PCI).join("resource2");
        fs::create_dir(directory).expect("a directory");
        assert!(RegisterMapping::new(&fake.root(), other(2)).is_err());
    }
}
