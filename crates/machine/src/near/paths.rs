//! States of paths to a disk: SCSI devices, and NVMe controllers with their namespaces
//! (`drivers/scsi/scsi_sysfs.c`, `drivers/nvme/host/multipath.c`).

use super::members::Member;
use crate::sysfs::{Sysfs, SysfsExt};

/// ALUA states in which a path takes no I/O (`drivers/scsi/device_handler/scsi_dh_alua.c`:
/// `alua_prep_fn`).
const WITHOUT_IO: [&str; 4] = ["standby", "unavailable", "offline", "transitioning"];

/// Returns the state in which the disk at a path takes no I/O; `None` if it does, or if it is
/// unknown.
pub(super) fn idle_disk(root: &dyn Sysfs, path: &str) -> Option<String> {
    let state = |file: &str| root.optional(&format!("{path}/device/{file}")).filter(|text| !text.is_empty());
    let is_running = |state: &String| matches!(state.as_str(), "running" | "live");
    let stopped = state("state").filter(|state| !is_running(state));
    stopped.or_else(|| state("access_state").filter(|state| WITHOUT_IO.contains(&state.as_str())))
}

/// The paths of an NVMe disk with several controllers that carry I/O are optimized ones, or without
/// those non-optimized ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Optimized,
    NonOptimized,
}

/// Returns the controllers of a subsystem as paths to its disk `head` (`nvme0n1`): each with its
/// state if the kernel does not use it.
///
/// A controller that is being deleted can still complete requests, and gets none after the removal
/// of its disks.
pub(super) fn controllers(root: &dyn Sysfs, subsystem: &str, head: &str) -> Vec<Member> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let is_controller = |name: &String| name.strip_prefix("nvme").is_some_and(is_number);
    let names = root.names(subsystem).into_iter().filter(is_controller);
    let found: Vec<(String, Option<String>)> =
        names.map(|name| (name.clone(), disk_of(root, &format!("{subsystem}/{name}"), head))).collect();
    // Some copies of sysfs do not list the hidden disk of each path.
    let lists_disks = found.iter().any(|(_, disk)| disk.is_some());
    let access = |(name, disk): &(String, Option<String>)| -> Result<Access, String> {
        if lists_disks && disk.is_none() {
            return Err("no path to this namespace".to_owned());
        }
        let directory = format!("{subsystem}/{name}");
        let state = root.optional(&format!("{directory}/state")).filter(|state| !state.is_empty());
        if let Some(state) = state.filter(|state| state != "live") {
            return Err(state);
        }
        let ana = disk.as_ref().and_then(|disk| root.optional(&format!("{directory}/{disk}/ana_state")));
        match ana.as_deref() {
            None | Some("" | "optimized") => Ok(Access::Optimized),
            Some("non-optimized") => Ok(Access::NonOptimized),
            Some(state) => Err(state.to_owned()),
        }
    };
    let all: Vec<Result<Access, String>> = found.iter().map(access).collect();
    let best = all.iter().filter_map(|access| access.as_ref().ok()).min().copied();
    let idle = |access: Result<Access, String>| match access {
        Ok(access) => (Some(access) != best).then(|| "non-optimized".to_owned()),
        Err(state) => Some(state),
    };
    found.into_iter().zip(all).map(|((name, _), access)| Member { name, idle: idle(access) }).collect()
}

/// Returns the hidden disk of a path: `nvme0c1n1` for `nvme0n1` through `nvme1`.
fn disk_of(root: &dyn Sysfs, controller: &str, head: &str) -> Option<String> {
    let (subsystem, namespace) = head.rsplit_once('n')?;
    let is_path = |name: &String| {
        let rest = name.strip_prefix(subsystem).and_then(|rest| rest.strip_prefix('c'));
        rest.and_then(|rest| rest.rsplit_once('n')).is_some_and(|(_, number)| number == namespace)
    };
    root.names(controller).into_iter().find(is_path)
}
