//! A running guest: its process with the roles of its threads, and its memory.

use super::command_line::parse_command_line;
use super::configuration::GuestConfiguration;
use super::memory::{self, GuestMemory};
use super::monitor::MonitorThreads;
use super::threads::{role, ThreadRole};
use crate::ids::CpuId;
use crate::process::{self, Thread};
use crate::set::CpuSet;
use crate::sysfs::{ReadErrorKind, Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A running guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Process id of its hypervisor.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub start_time: u64,
    /// Its configuration.
    pub configuration: GuestConfiguration,
    /// Its threads: vCPUs by number, then I/O, vhost, emulator.
    pub threads: Vec<GuestThread>,
    /// Its memory; `None` without permission.
    pub memory: Option<GuestMemory>,
}

/// A thread of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestThread {
    /// Its role.
    #[serde(flatten)]
    pub role: ThreadRole,
    /// Process that it belongs to: the hypervisor, or itself for a vhost thread of old kernels.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Start time of the thread, in clock ticks since boot; 0 if it ended.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// CPU on which it runs or last ran.
    pub cpu: CpuId,
    /// CPUs on which it may run; `None` if unknown.
    pub allowed: Option<CpuSet>,
}

impl Guest {
    /// Returns its name: the configured one, or the hypervisor and process id.
    pub fn name(&self) -> String {
        self.configuration.guest_name(self.pid)
    }

    /// Returns the threads of virtual CPUs.
    pub fn vcpus(&self) -> impl Iterator<Item = &GuestThread> {
        self.threads.iter().filter(|thread| thread.role.is_vcpu())
    }

    /// Returns whether its threads have no names that identify virtual CPUs.
    pub fn has_unnamed_vcpus(&self) -> bool {
        self.vcpus().next().is_none()
    }

    /// Sets roles as reported by a monitor, and sorts the threads again.
    pub fn apply_monitor(&mut self, reported: &MonitorThreads) {
        for thread in &mut self.threads {
            if let Some(role) = reported.role(thread.tid) {
                thread.role = role;
            }
        }
        self.sort_threads();
    }

    fn sort_threads(&mut self) {
        self.threads.sort_by(|a, b| (&a.role, a.tid).cmp(&(&b.role, b.tid)));
    }

    /// Returns whether the kernel cannot move its memory: a device of the host writes into it.
    pub fn is_pinned(&self) -> bool {
        let pinned = self.memory.as_ref().is_some_and(|memory| memory.pinned_bytes > 0);
        pinned || self.configuration.owns_device()
    }
}

/// Returns the configuration of the guest that a process runs, if it is a hypervisor.
pub fn configuration_of(root: &dyn Sysfs, pid: u32) -> Option<GuestConfiguration> {
    let bytes = root.read(&format!("/proc/{pid}/cmdline")).ok()?;
    // The link needs permission to trace the process, and the first argument usually suffices.
    parse_command_line(&bytes, None).or_else(|| {
        let program = root.link_name(&format!("/proc/{pid}/exe")).ok()?;
        parse_command_line(&bytes, Some(&program))
    })
}

/// Reads the guest that a process runs; `None` if it is not a hypervisor.
///
/// # Errors
/// The process ended, or belongs to another user.
pub fn read(root: &dyn Sysfs, pid: u32) -> Result<Option<Guest>, ReadErrorKind> {
    let Some(configuration) = configuration_of(root, pid) else { return Ok(None) };
    let vhost = kernel_vhost_threads(root).remove(&pid).unwrap_or_default();
    read_guest(root, pid, configuration, vhost).map(Some)
}

/// Returns all guests, by process id. Those that ended meanwhile are omitted.
pub fn all(root: &dyn Sysfs) -> Vec<Guest> {
    let mut vhost = kernel_vhost_threads(root);
    let guests = process::pids(root).into_iter().filter_map(|pid| {
        let configuration = configuration_of(root, pid)?;
        read_guest(root, pid, configuration, vhost.remove(&pid).unwrap_or_default()).ok()
    });
    guests.collect()
}

fn read_guest(
    root: &dyn Sysfs,
    pid: u32,
    configuration: GuestConfiguration,
    vhost: Vec<GuestThread>,
) -> Result<Guest, ReadErrorKind> {
    let process = process::threads(root, pid)?;
    let start_time = process::start_time(root, pid).ok_or(ReadErrorKind::Absent)?;
    let memory = memory::read(root, pid, &configuration);
    let thread =
        |thread: &Thread| guest_thread(root, role(configuration.hypervisor, &thread.name), pid, thread);
    let threads = process.threads.iter().map(thread).chain(vhost).collect();
    let mut guest = Guest { pid, start_time, configuration, threads, memory };
    guest.sort_threads();
    Ok(guest)
}

fn guest_thread(root: &dyn Sysfs, role: ThreadRole, pid: u32, thread: &Thread) -> GuestThread {
    let Thread { tid, name, cpu, allowed, .. } = thread.clone();
    let start_time = process::thread_start_time(root, pid, tid).unwrap_or(0);
    GuestThread { role, pid, tid, start_time, name, cpu, allowed }
}

/// Process id of the kernel's thread daemon, the parent of all kernel threads.
const KTHREADD: u32 = 2;

/// Returns the vhost threads that are kernel threads of their own, as before Linux 6.4, by the
/// guest in their name. A process of a user that has such a name is not one.
fn kernel_vhost_threads(root: &dyn Sysfs) -> BTreeMap<u32, Vec<GuestThread>> {
    let mut found: BTreeMap<u32, Vec<GuestThread>> = BTreeMap::new();
    for pid in process::pids(root) {
        let Some(name) = root.optional(&format!("/proc/{pid}/comm")) else { continue };
        let Some(guest) = name.strip_prefix("vhost-").and_then(|guest| guest.parse().ok()) else { continue };
        let Ok(process) = process::threads(root, pid) else { continue };
        if process.parent != KTHREADD {
            continue;
        }
        let threads = process.threads.iter().map(|thread| guest_thread(root, ThreadRole::Vhost, pid, thread));
        found.entry(guest).or_default().extend(threads);
    }
    found
}
