//! This host, and whether a process of it still runs.

use numaio_linux::Root;
use numaio_machine::control::boot_id;
use numaio_machine::process;
use numaio_machine::topology::hostname;

/// This host and its current boot.
pub struct LocalHost {
    root: Option<Root>,
    /// Boot ID; `None` if the kernel does not report it.
    pub boot: Option<String>,
    /// Host name.
    pub name: String,
}

impl LocalHost {
    /// Reads this host.
    pub fn current() -> Self {
        let root = Root::live().ok();
        let boot = root.as_ref().and_then(|root| boot_id(root));
        Self { name: root.as_ref().map(|root| hostname(root)).unwrap_or_default(), boot, root }
    }

    /// Returns whether nothing is known of processes.
    pub fn is_unknown(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the start time of a process in clock ticks since boot; 0 if it is unknown.
    pub fn start_time(&self, pid: u32) -> u64 {
        self.root.as_ref().and_then(|root| process::start_time(root, pid)).unwrap_or(0)
    }

    /// Returns whether the process still runs that had this ID, start time and boot.
    pub fn is_running(&self, pid: u32, start_time: u64, boot: Option<&str>) -> bool {
        let now = self.root.as_ref().and_then(|root| process::start_time(root, pid));
        boot == self.boot.as_deref() && now == Some(start_time)
    }
}
