//! Running processes: on which CPUs their threads run, and on which nodes their pages lie.

mod pages;
mod stat;

pub use pages::{parse_numa_maps, Pages};
pub use stat::{parse_stat, Stat};

use crate::ids::CpuId;
use crate::set::CpuSet;
use crate::sysfs::{ReadErrorKind, Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most threads of a process that are looked at.
const MAX_THREADS: usize = 100_000;

/// A process as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its threads, by number.
    pub threads: Vec<Thread>,
    /// Where its pages lie; none if the kernel does not let us see it.
    pub pages: Option<Pages>,
}

/// A thread as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU on which it runs or last ran.
    pub cpu: CpuId,
    /// CPUs on which it may run; none if that cannot be seen.
    pub allowed: Option<CpuSet>,
    /// CPU time it has used, user and system, in clock ticks of 10 ms.
    pub ticks: u64,
}

/// Numbers of all processes, ascending.
pub fn pids(root: &dyn Sysfs) -> Vec<u32> {
    numbers(root, "/proc")
}

/// A process with its threads and pages.
///
/// # Errors
/// Why its files cannot be read: it is gone, or it is another user's.
pub fn read(root: &dyn Sysfs, pid: u32) -> Result<Process, ReadErrorKind> {
    let mut process = threads(root, pid)?;
    process.pages = pages(root, pid);
    Ok(process)
}

/// A process with its threads alone: reading where pages lie takes the kernel long for large ones.
///
/// # Errors
/// As [`read`].
pub fn threads(root: &dyn Sysfs, pid: u32) -> Result<Process, ReadErrorKind> {
    let stat = stat_of(root, &format!("/proc/{pid}"))?;
    let tids = numbers(root, &format!("/proc/{pid}/task"));
    // A thread that has ended since the list was made is none.
    let threads = tids.into_iter().take(MAX_THREADS).filter_map(|tid| thread(root, pid, tid)).collect();
    Ok(Process { pid, parent: stat.parent, name: stat.name, threads, pages: None })
}

/// When a process began, in clock ticks since the machine was started: with its number that tells it from every other
/// one of this start of the kernel. None if it has ended, also if nobody has asked yet how.
pub fn start_time(root: &dyn Sysfs, pid: u32) -> Option<u64> {
    let stat = stat_of(root, &format!("/proc/{pid}")).ok()?;
    (!matches!(stat.state, 'Z' | 'X' | 'x')).then_some(stat.start_time)
}

/// Where the pages of a process lie; none if the kernel does not let us see it.
pub fn pages(root: &dyn Sysfs, pid: u32) -> Option<Pages> {
    root.optional(&format!("/proc/{pid}/numa_maps")).map(|text| parse_numa_maps(&text))
}

/// Bytes that a process has read and written since it began, through the page cache or past it; none if the kernel does
/// not let us see (`Documentation/filesystems/proc.rst`, 3.3).
pub fn bytes_moved(root: &dyn Sysfs, pid: u32) -> Option<u64> {
    parse_io(&root.optional(&format!("/proc/{pid}/io"))?)
}

/// The greater of what it asked for and what went to disks: mapped files are not asked for, and cached ones and
/// sockets reach no disk.
fn parse_io(text: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    let asked = field("rchar:")?.saturating_add(field("wchar:")?);
    let of_disks = field("read_bytes:")?.saturating_add(field("write_bytes:")?);
    Some(asked.max(of_disks))
}

/// Of each of these processes itself and all that descend from it, as they are now; the process itself first.
/// Everything that runs is looked at once, however many are asked for.
pub fn process_trees(root: &dyn Sysfs, pids: &[u32]) -> Vec<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for one in self::pids(root) {
        if let Ok(stat) = stat_of(root, &format!("/proc/{one}")) {
            children.entry(stat.parent).or_default().push(one);
        }
    }
    pids.iter().map(|pid| process_tree(&children, *pid)).collect()
}

fn process_tree(children: &BTreeMap<u32, Vec<u32>>, pid: u32) -> Vec<u32> {
    let mut process_tree = vec![pid];
    let mut next = 0;
    while let Some(parent) = process_tree.get(next).copied() {
        // Numbers are used again: what is known already is no child of its own.
        let born: Vec<u32> = children
            .get(&parent)
            .into_iter()
            .flatten()
            .filter(|child| !process_tree.contains(child))
            .copied()
            .collect();
        process_tree.extend(born);
        next += 1;
    }
    process_tree
}

fn thread(root: &dyn Sysfs, pid: u32, tid: u32) -> Option<Thread> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let Stat { name, cpu, ticks, .. } = stat_of(root, &folder).ok()?;
    let status = root.optional(&format!("{folder}/status"));
    let allowed = status.as_deref().and_then(allowed);
    Some(Thread { tid, name, cpu, allowed, ticks })
}

fn stat_of(root: &dyn Sysfs, folder: &str) -> Result<Stat, ReadErrorKind> {
    let text = root.text(&format!("{folder}/stat")).map_err(|error| error.why)?;
    parse_stat(&text).ok_or_else(|| ReadErrorKind::Malformed("no stat file".to_owned()))
}

/// `Cpus_allowed_list` of a status file (Documentation/filesystems/proc.rst).
fn allowed(status: &str) -> Option<CpuSet> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse_list(list.trim()).ok()
}

fn numbers(root: &dyn Sysfs, folder: &str) -> Vec<u32> {
    let names = root.list(folder).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
