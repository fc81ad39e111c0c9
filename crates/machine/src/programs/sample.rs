//! One sample of a program.

use super::control_group::control_group;
use super::mappings::{parse_program_memory, ProgramMemory};
use super::status_file::{parse_io, parse_status, IoCounters, StatusFacts};
use crate::ids::CpuId;
use crate::process::{numbers, stat_of};
use crate::set::CpuSet;
use crate::sysfs::{ReadErrorKind, Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};

/// Maximum number of threads to read per program.
const MAX_THREADS: usize = 100_000;

/// Counters and facts of a program at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramSample {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot; with the process id it is unique within a boot.
    pub start_time: u64,
    /// Parent process id.
    pub parent: u32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub is_kernel_thread: bool,
    /// CPU time of all threads, in clock ticks of 10 ms.
    pub ticks: u64,
    /// CPU on which the main thread runs or last ran.
    pub cpu: CpuId,
    /// I/O counters; `None` if not permitted or not read.
    pub io: Option<IoCounters>,
    /// Details, unless only counters were read.
    pub details: Option<ProgramDetails>,
    /// Memory by node; `None` if not permitted or not read.
    pub memory: Option<ProgramMemory>,
}

/// Details of a program that the counters do not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ProgramDetails {
    /// Threads, ascending by id.
    pub threads: Vec<ThreadSample>,
    /// Limits and amounts of memory.
    pub status: StatusFacts,
    /// Path of its control group.
    pub control_group: Option<String>,
}

/// A thread of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ThreadSample {
    /// Thread id.
    pub tid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// CPU on which it runs or last ran.
    pub cpu: CpuId,
    /// CPU time in clock ticks.
    pub ticks: u64,
    /// State as one letter: `R` running or runnable, `D` waiting for a device.
    pub state: char,
    /// Whether it has a real-time priority or a deadline.
    pub is_real_time: bool,
    /// CPUs on which it may run; `None` if unknown.
    pub allowed: Option<CpuSet>,
}

/// Reads only the counters of a program: two small files.
///
/// # Errors
/// The process ended.
pub fn read_counters(root: &dyn Sysfs, pid: u32) -> Result<ProgramSample, ReadErrorKind> {
    let mut sample = read_stat(root, pid)?;
    if !sample.is_kernel_thread {
        sample.io = read_io(root, pid);
    }
    Ok(sample)
}

/// Reads the identity and the CPU time of a program.
///
/// # Errors
/// The process ended.
pub(super) fn read_stat(root: &dyn Sysfs, pid: u32) -> Result<ProgramSample, ReadErrorKind> {
    let stat = stat_of(root, &format!("/proc/{pid}"))?;
    if matches!(stat.state, 'Z' | 'X' | 'x') {
        return Err(ReadErrorKind::Absent);
    }
    Ok(ProgramSample {
        pid,
        start_time: stat.start_time,
        parent: stat.parent,
        is_kernel_thread: stat.is_kernel_thread(),
        name: stat.name,
        ticks: stat.ticks,
        cpu: stat.cpu,
        io: None,
        details: None,
        memory: None,
    })
}

/// Reads the I/O counters of a program; `None` if not permitted.
pub(super) fn read_io(root: &dyn Sysfs, pid: u32) -> Option<IoCounters> {
    parse_io(&root.optional(&format!("/proc/{pid}/io"))?)
}

/// Reads threads, limits and control group of a program.
///
/// # Errors
/// The process ended.
pub fn read_details(root: &dyn Sysfs, pid: u32) -> Result<ProgramDetails, ReadErrorKind> {
    let status = root.text(&format!("/proc/{pid}/status")).map_err(|error| error.why)?;
    let tids = numbers(root, &format!("/proc/{pid}/task"));
    Ok(ProgramDetails {
        threads: tids.into_iter().take(MAX_THREADS).filter_map(|tid| read_thread(root, pid, tid)).collect(),
        status: parse_status(&status),
        control_group: control_group(root, pid),
    })
}

/// Reads a thread; `None` if it ended.
pub fn read_thread(root: &dyn Sysfs, pid: u32, tid: u32) -> Option<ThreadSample> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = stat_of(root, &folder).ok()?;
    let status = root.optional(&format!("{folder}/status"));
    Some(ThreadSample {
        tid,
        start_time: stat.start_time,
        cpu: stat.cpu,
        ticks: stat.ticks,
        state: stat.state,
        is_real_time: stat.is_real_time(),
        allowed: status.and_then(|status| parse_status(&status).cpus_allowed),
    })
}

/// Reads the memory of a program by node, which takes the kernel long for large programs; `None`
/// if not permitted.
pub fn read_memory(root: &dyn Sysfs, pid: u32) -> Option<ProgramMemory> {
    root.optional(&format!("/proc/{pid}/numa_maps")).map(|text| parse_program_memory(&text))
}

/// Reads the address ranges of a program that may be moved; `None` if not permitted.
///
/// `has_locked` is whether the program has locked memory, which is excluded.
pub fn read_movable_ranges(
    root: &dyn Sysfs,
    pid: u32,
    has_locked: bool,
    override_policies: bool,
) -> Option<Vec<std::ops::Range<u64>>> {
    let text = |file: &str| root.optional(&format!("/proc/{pid}/{file}"));
    let locked = match has_locked {
        true => super::mappings::locked_mappings(&text("smaps")?),
        false => Default::default(),
    };
    Some(super::mappings::movable_ranges(&text("maps")?, &text("numa_maps")?, &locked, override_policies))
}

/// Reads the mappings of a program that have transparent huge pages; none if not permitted.
pub fn read_huge_mappings(root: &dyn Sysfs, pid: u32) -> Vec<std::ops::Range<u64>> {
    let smaps = root.optional(&format!("/proc/{pid}/smaps"));
    smaps.map(|text| super::mappings::huge_mappings(&text)).unwrap_or_default()
}

/// Returns the size of a transparent huge page in bytes; 2 MiB if the kernel does not report it.
pub fn huge_page_bytes(root: &dyn Sysfs) -> u64 {
    let size = root.value::<u64>("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok();
    size.filter(|size| size.is_power_of_two()).unwrap_or(2 << 20)
}

/// Returns which of these programs run, by name.
pub fn running_programs(root: &dyn Sysfs, names: &[&str]) -> Vec<String> {
    let comm = |pid: u32| root.optional(&format!("/proc/{pid}/comm"));
    let running: std::collections::BTreeSet<String> =
        crate::process::pids(root).into_iter().filter_map(comm).collect();
    names.iter().filter(|name| running.contains(**name)).map(|name| (*name).to_owned()).collect()
}
