//! What this process may use: its control groups and its affinity.

use super::cgroup::{Group, Groups};
use super::{finding, Confinement, Cpu, Node};
use crate::findings::{Finding, Severity};
use crate::ids::Id;
use crate::set::{CpuSet, IdSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::units::format_size;

/// Limits from here on are no limits: version 1 writes the largest number of pages in bytes for none.
const NO_LIMIT: u64 = 1 << 60;

/// Names of the files that tell CPUs and nodes of a cpuset: version 2, version 1, and version 1 without prefix.
/// The effective sets come first: the configured ones may name what is offline or barred further up.
const CPU_FILES: [&str; 4] = ["cpuset.effective_cpus", "effective_cpus", "cpuset.cpus", "cpus"];
const NODE_FILES: [&str; 4] = ["cpuset.effective_mems", "effective_mems", "cpuset.mems", "mems"];
const CPU_FILES_V2: [&str; 1] = ["cpuset.cpus.effective"];
const NODE_FILES_V2: [&str; 1] = ["cpuset.mems.effective"];

/// Reads what this process may use of online CPUs and of nodes with memory.
///
/// A source that allows nothing of this machine is not of it (a file system root of another machine under our
/// own /proc/self, or a recording that left it out), and is passed over.
pub(super) fn read(root: &dyn Sysfs, cpus: &[Cpu], nodes: &[Node]) -> Confinement {
    let online: CpuSet = cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let with_memory: NodeSet =
        nodes.iter().filter(|node| node.memory.is_some()).map(|node| node.id).collect();
    let groups = Groups::read(root);
    let mut found =
        Confinement { cpus: online.clone(), nodes: with_memory.clone(), ..Confinement::default() };
    let cpuset = groups.of("cpuset");
    if let Some(group) = &cpuset {
        narrow_by_group(root, group, &mut found);
    }
    narrow_by_status(root, &mut found);
    let memory = groups.of("memory");
    found.cgroup = cpuset.or_else(|| memory.clone()).map(|group| group.path);
    let memories = nodes.iter().filter_map(|node| node.memory);
    let total = memories.fold(0u64, |sum, memory| sum.saturating_add(memory.total_bytes));
    found.memory_left_bytes = memory.as_ref().and_then(|group| memory_left(root, group));
    if let Some((bytes, file)) = memory.and_then(|group| memory_limit(root, &group)) {
        found.memory_limit_bytes = Some(bytes);
        if bytes < total {
            found.by.push(format!("memory limit of {} ({file})", format_size(bytes)));
        }
    }
    found.excluded_cpus = online.difference(&found.cpus);
    found.excluded_nodes = with_memory.difference(&found.nodes);
    found
}

fn narrow_by_group(root: &dyn Sysfs, group: &Group, found: &mut Confinement) {
    let (version, cpu_files, node_files) = if group.v2 {
        ("v2", &CPU_FILES_V2[..], &NODE_FILES_V2[..])
    } else {
        ("v1", &CPU_FILES[..], &NODE_FILES[..])
    };
    let by = |file: &str| format!("cgroup {version} {} ({file})", group.path);
    if let Some((allowed, file)) = nearest_set(root, group, cpu_files) {
        if narrow(&mut found.cpus, &allowed) {
            found.by.push(by(file));
        }
    }
    if let Some((allowed, file)) = nearest_set(root, group, node_files) {
        if narrow(&mut found.nodes, &allowed) {
            found.by.push(by(file));
        }
    }
}

/// The first of these files, in the group or the nearest above it, that holds a set of something: where a
/// controller is not enabled for a group, that of the group above counts.
fn nearest_set<T: Id>(
    root: &dyn Sysfs,
    group: &Group,
    files: &[&'static str],
) -> Option<(IdSet<T>, &'static str)> {
    group.directories.iter().flat_map(|directory| files.iter().map(move |file| (directory, *file))).find_map(
        |(directory, file)| {
            let set = IdSet::parse_list(&root.optional(&format!("{directory}/{file}"))?).ok()?;
            (!set.is_empty()).then_some((set, file))
        },
    )
}

/// /proc/self/status (`Documentation/filesystems/proc.rst`, 1.1): what affinity leaves of the cpuset.
fn narrow_by_status(root: &dyn Sysfs, found: &mut Confinement) {
    let text = root.optional("/proc/self/status").unwrap_or_default();
    if narrow(&mut found.cpus, &status_set(&text, "Cpus_allowed_list")) {
        found.by.push("affinity mask (Cpus_allowed_list)".to_owned());
    }
    if narrow(&mut found.nodes, &status_set(&text, "Mems_allowed_list")) {
        found.by.push("allowed nodes (Mems_allowed_list)".to_owned());
    }
}

fn status_set<T: Id>(text: &str, key: &str) -> IdSet<T> {
    let value = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == key);
    value.and_then(|(_, list)| IdSet::parse_list(list).ok()).unwrap_or_default()
}

/// Leaves what is allowed, and tells whether that is less; nothing allowed is no statement about this machine.
fn narrow<T: Id>(left: &mut IdSet<T>, allowed: &IdSet<T>) -> bool {
    let both = left.intersection(allowed);
    if both.is_empty() || both == *left {
        return false;
    }
    *left = both;
    true
}

/// The least limit of the group and of those above it, with its file.
fn memory_limit(root: &dyn Sysfs, group: &Group) -> Option<(u64, String)> {
    let limits = group.directories.iter().filter_map(|directory| limit_of(root, group.v2, directory));
    limits.min_by_key(|(bytes, _)| *bytes)
}

/// The limit of one group, with its file.
fn limit_of(root: &dyn Sysfs, v2: bool, directory: &str) -> Option<(u64, String)> {
    let path = format!("{directory}/{}", if v2 { "memory.max" } else { "memory.limit_in_bytes" });
    // Version 2 writes `max` for none.
    let bytes: u64 = root.value(&path).ok().filter(|bytes| *bytes < NO_LIMIT)?;
    Some((bytes, path))
}

/// Bytes of memory that this process can still take before the OOM killer of its control group, or of one above it,
/// wakes; none without a limit.
pub fn memory_left_bytes(root: &dyn Sysfs) -> Option<u64> {
    Groups::read(root).of("memory").and_then(|group| memory_left(root, &group))
}

/// The least that a limit leaves, of the group and of those above it.
fn memory_left(root: &dyn Sysfs, group: &Group) -> Option<u64> {
    let left = |directory: &String| {
        let (limit, _) = limit_of(root, group.v2, directory)?;
        Some(limit.saturating_sub(used_bytes(root, group.v2, directory)))
    };
    group.directories.iter().filter_map(left).min()
}

/// What a group and those below it use, less the page cache, which gives way; nothing where the kernel tells none
/// (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`: there the totals are those of the hierarchy).
fn used_bytes(root: &dyn Sysfs, v2: bool, directory: &str) -> u64 {
    let (usage, cache) = match v2 {
        true => ("memory.current", ["inactive_file", "active_file"]),
        false => ("memory.usage_in_bytes", ["total_inactive_file", "total_active_file"]),
    };
    let stat = root.optional(&format!("{directory}/memory.stat")).unwrap_or_default();
    let of_stat =
        |(name, bytes): (&str, &str)| bytes.trim().parse::<u64>().ok().filter(|_| cache.contains(&name));
    let cached: u64 =
        stat.lines().filter_map(|line| of_stat(line.split_once(' ')?)).fold(0, u64::saturating_add);
    let used: u64 = root.value(&format!("{directory}/{usage}")).unwrap_or(0);
    used.saturating_sub(cached)
}

/// Says what is excluded.
pub(super) fn judge(confinement: &Confinement, findings: &mut Vec<Finding>) {
    if confinement.by.is_empty() {
        return;
    }
    let mut excluded = Vec::new();
    if !confinement.excluded_cpus.is_empty() {
        excluded.push(format!("CPUs {}", confinement.excluded_cpus));
    }
    if !confinement.excluded_nodes.is_empty() {
        excluded.push(format!("memory of nodes {}", confinement.excluded_nodes));
    }
    let what = if excluded.is_empty() {
        "This process may not use all memory.".to_owned()
    } else {
        format!("This process may not use {}.", excluded.join(" and "))
    };
    findings.push(finding(
        Severity::Note,
        "confined",
        "machine",
        &what,
        confinement.by.join("; "),
        "Run outside the container, job or cpuset to see and measure the whole machine.",
    ));
}
