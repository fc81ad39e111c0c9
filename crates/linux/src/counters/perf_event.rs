//! perf_event_open(2).

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// `struct perf_event_attr` of its first version, 64 bytes (include/uapi/linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    pmu: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Bits of `flags`.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;

/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_DISABLE`, with `PERF_IOC_FLAG_GROUP`.
const ENABLE: u32 = 0x2400;
const DISABLE: u32 = 0x2401;
const GROUP: libc::c_ulong = 1;

/// The threads or the CPU that an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSubject {
    /// Threads and processes that the calling thread starts.
    NewThreads,
    /// Programs that the calling thread starts; counted from their exec on.
    NewPrograms,
    /// A thread by its id, and those that it starts.
    Thread(u32),
    /// Everything, read through a CPU.
    Cpu(u32),
}

/// The event to count.
#[derive(Debug, Clone, Copy)]
pub struct EventRequest {
    /// `perf_event_attr.type`.
    pub pmu: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// Whether to count in user mode only.
    pub is_user_only: bool,
    /// The counted event.
    pub subject: EventSubject,
}

/// An open event, which is disabled at first.
#[derive(Debug)]
pub struct OpenEvent {
    file: OwnedFd,
    is_leader: bool,
}

/// A raw reading: the count, and the times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawReading {
    /// The count.
    pub value: u64,
    /// Time for which the event was enabled.
    pub enabled_ns: u64,
    /// Time for which it was counted.
    pub running_ns: u64,
}

impl OpenEvent {
    /// Opens an event, alone or in the group of `leader`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(request: &EventRequest, leader: Option<&Self>) -> Result<Self, Errno> {
        let (pid, cpu, mut flags) = match request.subject {
            EventSubject::NewThreads | EventSubject::NewPrograms => (0, -1, INHERIT),
            EventSubject::Thread(tid) => (tid as libc::pid_t, -1, INHERIT),
            EventSubject::Cpu(cpu) => (-1, cpu as libc::c_int, 0),
        };
        if request.is_user_only {
            flags |= EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        }
        // Members of a group follow their leader.
        if leader.is_none() {
            flags |= DISABLED;
            flags |= if request.subject == EventSubject::NewPrograms { ENABLE_ON_EXEC } else { 0 };
        }
        let attributes = Attributes {
            pmu: request.pmu,
            size: size_of::<Attributes>() as u32,
            config: request.config,
            config1: request.config1,
            read_format: TIMES,
            flags,
            ..Attributes::default()
        };
        let group = leader.map_or(-1, |leader| leader.file.as_raw_fd());
        // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call.
        let opened = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, cpu, group, CLOSE_ON_EXEC)
        };
        if opened < 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        // SAFETY: the call returned a new descriptor, which nothing else owns.
        let file = unsafe { OwnedFd::from_raw_fd(opened as libc::c_int) };
        Ok(Self { file, is_leader: leader.is_none() })
    }

    /// Returns whether the call fails with EPERM before the kernel reads its arguments, as by the
    /// usual seccomp filters. Kernels and security modules that reject so early return EACCES.
    pub fn is_rejected_unread() -> bool {
        let nothing = std::ptr::null::<Attributes>();
        // SAFETY: the kernel returns EFAULT for attributes at address 0.
        let opened = unsafe { libc::syscall(libc::SYS_perf_event_open, nothing, 0, -1, -1, CLOSE_ON_EXEC) };
        let error = std::io::Error::last_os_error();
        opened < 0 && error.raw_os_error() == Some(libc::EPERM)
    }

    /// Starts counting the event with its group, in all threads that inherited it.
    pub fn enable(&self) {
        self.control(ENABLE);
    }

    /// Stops counting.
    pub fn disable(&self) {
        self.control(DISABLE);
    }

    /// Members of a group are controlled by their leader. The operations fail for no open event.
    fn control(&self, operation: u32) {
        if self.is_leader {
            // SAFETY: the operation takes a number and accesses no memory.
            unsafe { libc::ioctl(self.file.as_raw_fd(), operation as _, GROUP) };
        }
    }

    /// Reads the count, with those of the threads that inherited the event.
    ///
    /// # Errors
    /// The kernel's error, or `EIO` for an incomplete reading.
    pub fn read(&self) -> Result<RawReading, Errno> {
        let mut bytes = [0; 24];
        if rustix::io::read(&self.file, &mut bytes)? != bytes.len() {
            return Err(Errno::IO);
        }
        let word = |at: usize| {
            let word = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_ne_bytes(word)
        };
        Ok(RawReading { value: word(0), enabled_ns: word(8), running_ns: word(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::print_skipped;

    #[test]
    fn attributes_have_the_size_of_the_first_version() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    /// Page faults need no PMU, so that this runs in virtual machines, too.
    #[test]
    fn counts_page_faults_of_new_threads_while_enabled() {
        let request = EventRequest {
            pmu: 1,
            config: 2,
            config1: 0,
            is_user_only: true,
            subject: EventSubject::NewThreads,
        };
        let event = match OpenEvent::open(&request, None) {
            Ok(event) => event,
            Err(error) => {
                return print_skipped(&format!("skipped: perf_event_open: {error}"));
            }
        };
        let touch = || {
            std::thread::spawn(|| {
                let pages = vec![1u8; 4 << 20];
                std::hint::black_box(&pages);
            })
            .join()
            .expect("no panic");
        };
        touch();
        assert_eq!(event.read().expect("a count").value, 0, "disabled");
        event.enable();
        touch();
        event.disable();
        let counted = event.read().expect("a count");
        assert!(counted.value > 0 && counted.enabled_ns >= counted.running_ns, "{counted:?}");
        touch();
        assert_eq!(event.read().expect("a count").value, counted.value, "disabled again");
    }
}
