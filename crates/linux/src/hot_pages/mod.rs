//! Accesses to the memory of other processes: DAMON and idle page tracking.

pub(crate) mod damon;
mod idle_pages;

pub use idle_pages::IdlePages;

use crate::Root;
use numaio_machine::hot_pages::{is_direct_io, AccessMonitorKind};
use numaio_machine::sysfs::{Sysfs, SysfsExt};

/// Returns the monitor that this kernel has, that no other program uses, and that this process may
/// use.
///
/// # Errors
/// The reasons why there is none, as text.
pub fn available_monitor(root: &Root) -> Result<AccessMonitorKind, String> {
    let damon = match damon::check(root) {
        Ok(()) => return Ok(AccessMonitorKind::Damon),
        Err(why) => why,
    };
    match idle_pages::check(root) {
        Ok(()) => Ok(AccessMonitorKind::IdlePages),
        Err(why) => Err(format!("DAMON: {damon}; idle page tracking: {why}")),
    }
}

/// Returns whether a process has a file open for direct I/O: devices then access its buffers, which
/// no monitor observes. Unreadable files count as such.
pub fn uses_direct_io(root: &Root, pid: u32) -> bool {
    let folder = format!("/proc/{pid}/fdinfo");
    let Ok(names) = root.list(&folder) else { return true };
    let direct = u32::try_from(libc::O_DIRECT).unwrap_or(0);
    let text = |name: &String| root.optional(&format!("{folder}/{name}"));
    names.iter().filter_map(text).any(|text| is_direct_io(&text, direct))
}
