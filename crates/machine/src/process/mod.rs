//! Running processes: the CPUs of their threads and the nodes of their pages.

mod pages;
mod stat;

pub(crate) use pages::{address_range, is_memory, NumaMapping};
pub use pages::{parse_numa_maps, smaps_values, Pages};
pub use stat::{parse_stat, Stat};

use crate::ids::CpuId;
use crate::set::CpuSet;
use crate::sysfs::{ReadErrorKind, Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of threads to read per process.
const MAX_THREADS: usize = 100_000;

/// The current state of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent process id.
    pub parent: u32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Threads, ascending by id.
    pub threads: Vec<Thread>,
    /// Pages by node; `None` if not permitted.
    pub pages: Option<Pages>,
}

/// The current state of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// CPU on which it runs or last ran.
    pub cpu: CpuId,
    /// CPUs on which it may run; `None` if unknown.
    pub allowed: Option<CpuSet>,
    /// CPU time, user and system, in clock ticks of 10 ms.
    pub ticks: u64,
}

/// Returns the ids of all processes, ascending.
pub fn pids(root: &dyn Sysfs) -> Vec<u32> {
    numbers(root, "/proc")
}

/// Reads a process with its threads and pages.
///
/// # Errors
/// The process ended, or belongs to another user.
pub fn read(root: &dyn Sysfs, pid: u32) -> Result<Process, ReadErrorKind> {
    let mut process = threads(root, pid)?;
    process.pages = pages(root, pid);
    Ok(process)
}

/// Reads a process with its threads but without pages, which take the kernel long for large
/// processes.
///
/// # Errors
/// As [`read`].
pub fn threads(root: &dyn Sysfs, pid: u32) -> Result<Process, ReadErrorKind> {
    let stat = stat_of(root, &format!("/proc/{pid}"))?;
    let tids = numbers(root, &format!("/proc/{pid}/task"));
    // A thread that ended meanwhile is omitted.
    let threads = tids.into_iter().take(MAX_THREADS).filter_map(|tid| thread(root, pid, tid)).collect();
    Ok(Process { pid, parent: stat.parent, name: stat.name, threads, pages: None })
}

/// Returns the start time of a process, in clock ticks since boot.
///
/// Together with the process id it is unique within a boot. `None` if the process ended, also if it
/// was not reaped yet.
pub fn start_time(root: &dyn Sysfs, pid: u32) -> Option<u64> {
    let stat = stat_of(root, &format!("/proc/{pid}")).ok()?;
    // The first thread may end before the others (pthread_exit(3)).
    let runs =
        |tid: &u32| stat_of(root, &format!("/proc/{pid}/task/{tid}")).is_ok_and(|thread| !thread.has_ended());
    let is_running = !stat.has_ended() || numbers(root, &format!("/proc/{pid}/task")).iter().any(runs);
    is_running.then_some(stat.start_time)
}

/// Returns the start time of a thread, in clock ticks since boot; `None` if it ended.
pub fn thread_start_time(root: &dyn Sysfs, pid: u32, tid: u32) -> Option<u64> {
    stat_of(root, &format!("/proc/{pid}/task/{tid}")).ok().map(|stat| stat.start_time)
}

/// Returns the CPUs on which a thread may run; `None` if it ended.
pub fn allowed_cpus(root: &dyn Sysfs, pid: u32, tid: u32) -> Option<CpuSet> {
    allowed(&root.text(&format!("/proc/{pid}/task/{tid}/status")).ok()?)
}

/// Returns the number of threads in uninterruptible sleep, which ignore even SIGKILL.
pub fn uninterruptible_threads(root: &dyn Sysfs, pid: u32) -> usize {
    let tids = numbers(root, &format!("/proc/{pid}/task"));
    let stats = tids.iter().take(MAX_THREADS);
    let stats = stats.filter_map(|tid| stat_of(root, &format!("/proc/{pid}/task/{tid}")).ok());
    stats.filter(|stat| stat.state == 'D').count()
}

/// Reads the pages of a process by node; `None` if not permitted.
pub fn pages(root: &dyn Sysfs, pid: u32) -> Option<Pages> {
    root.optional(&format!("/proc/{pid}/numa_maps")).map(|text| parse_numa_maps(&text))
}

/// Returns the bytes that a process read and wrote since its start, with and without page cache;
/// `None` if not permitted (`Documentation/filesystems/proc.rst`, 3.3).
pub fn bytes_moved(root: &dyn Sysfs, pid: u32) -> Option<u64> {
    parse_io(&root.optional(&format!("/proc/{pid}/io"))?)
}

/// Returns the larger of requested bytes and disk traffic: accesses to mapped files are not
/// requests, and cached data and sockets do not reach disks.
fn parse_io(text: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    let asked = field("rchar:")?.saturating_add(field("wchar:")?);
    let of_disks = field("read_bytes:")?.saturating_add(field("write_bytes:")?);
    Some(asked.max(of_disks))
}

/// Returns each of these processes with all its current descendants, the process itself first.
///
/// Reads all processes once, regardless of the number of ids.
pub fn process_trees(root: &dyn Sysfs, pids: &[u32]) -> Vec<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for one in self::pids(root) {
        if let Ok(stat) = stat_of(root, &format!("/proc/{one}")) {
            children.entry(stat.parent).or_default().push(one);
        }
    }
    pids.iter().map(|pid| process_tree(&children, *pid)).collect()
}

/// Returns a process with all its current descendants, the process itself first.
///
/// Reads only these processes, where the kernel lists children (`/proc/PID/task/TID/children`,
/// `CONFIG_PROC_CHILDREN`, proc(5)), else as [`process_trees`].
pub fn process_tree_of(root: &dyn Sysfs, pid: u32) -> Vec<u32> {
    let mut process_tree = vec![pid];
    let mut next = 0;
    while let Some(parent) = process_tree.get(next).copied() {
        for tid in numbers(root, &format!("/proc/{parent}/task")).into_iter().take(MAX_THREADS) {
            let children = match root.text(&format!("/proc/{parent}/task/{tid}/children")) {
                Ok(children) => children,
                // The kernel does not list children, rather than that a thread ended.
                Err(_) if parent == pid && tid == pid => {
                    return process_trees(root, &[pid]).into_iter().flatten().collect();
                }
                Err(_) => continue,
            };
            let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
            let born: Vec<u32> = children.filter(|child| !process_tree.contains(child)).collect();
            process_tree.extend(born);
        }
        next += 1;
    }
    process_tree
}

fn process_tree(children: &BTreeMap<u32, Vec<u32>>, pid: u32) -> Vec<u32> {
    let mut process_tree = vec![pid];
    let mut next = 0;
    while let Some(parent) = process_tree.get(next).copied() {
        // Process ids are reused: a known process is not its own descendant.
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

pub(crate) fn stat_of(root: &dyn Sysfs, folder: &str) -> Result<Stat, ReadErrorKind> {
    let text = root.text(&format!("{folder}/stat")).map_err(|error| error.why)?;
    parse_stat(&text).ok_or_else(|| ReadErrorKind::Malformed("unexpected format of the stat file".to_owned()))
}

/// Parses `Cpus_allowed_list` of a status file (Documentation/filesystems/proc.rst).
fn allowed(status: &str) -> Option<CpuSet> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse_list(list.trim()).ok()
}

pub(crate) fn numbers(root: &dyn Sysfs, folder: &str) -> Vec<u32> {
    let names = root.list(folder).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn stat(pid: u32, parent: u32) -> String {
        format!("{pid} (sh) S {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0{}\n", " 0".repeat(30))
    }

    #[test]
    fn process_ends_with_its_last_thread() {
        let ended = |pid: u32| stat(pid, 1).replace(" S ", " Z ");
        let mut tree = Tree::new();
        tree.file("/proc/7/stat", ended(7));
        tree.file("/proc/7/task/7/stat", ended(7));
        assert_eq!(start_time(&tree, 7), None);
        tree.file("/proc/7/task/8/stat", stat(8, 1));
        assert_eq!(start_time(&tree, 7), Some(5));
    }

    #[test]
    fn finds_the_descendants_with_and_without_lists_of_children() {
        let parents = [(7, 1), (8, 7), (9, 8), (10, 1)];
        let mut tree = Tree::new();
        for (pid, parent) in parents {
            tree.file(&format!("/proc/{pid}/stat"), stat(pid, parent));
            tree.file(&format!("/proc/{pid}/task/{pid}/stat"), stat(pid, parent));
        }
        assert_eq!(process_tree_of(&tree, 7), [7, 8, 9]);
        // The lists win over the states: they name no process twice, and may end anywhere.
        for (pid, children) in [(7, "8 10 "), (8, "7 x"), (10, "")] {
            tree.file(&format!("/proc/{pid}/task/{pid}/children"), children);
        }
        assert_eq!(process_tree_of(&tree, 7), [7, 8, 10]);
        assert_eq!(process_tree_of(&tree, 99), [99]);
    }
}
