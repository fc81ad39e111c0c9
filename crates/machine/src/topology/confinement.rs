//! Resources that this process may use, limited by control groups and affinity.

use super::cgroup::{Group, Groups};
use super::parts::{Confinement, Cpu, Node};
use super::quota::cpu_quota;
use crate::ids::Id;
use crate::set::{CpuSet, IdSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::units::{format_cpus, format_size};

/// Value from which a limit counts as none: version 1 reports the largest page-aligned number.
const NO_LIMIT: u64 = 1 << 60;

/// File names of a cpuset's CPUs and nodes: version 2, version 1, and version 1 without prefix.
///
/// Effective sets come first, since configured sets can include offline or excluded ids.
const CPU_FILES: [&str; 4] = ["cpuset.effective_cpus", "effective_cpus", "cpuset.cpus", "cpus"];
const NODE_FILES: [&str; 4] = ["cpuset.effective_mems", "effective_mems", "cpuset.mems", "mems"];
const CPU_FILES_V2: [&str; 1] = ["cpuset.cpus.effective"];
const NODE_FILES_V2: [&str; 1] = ["cpuset.mems.effective"];

/// Reads the online CPUs and the nodes with memory that this process may use.
///
/// A source that permits no CPU or node of this machine is skipped: it describes another machine (a
/// foreign root with our own /proc/self, or an incomplete recording).
pub(super) fn read(root: &dyn Sysfs, groups: &Groups, cpus: &[Cpu], nodes: &[Node]) -> Confinement {
    let online: CpuSet = cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let with_memory: NodeSet = nodes.iter().filter(|node| node.has_memory()).map(|node| node.id).collect();
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
            found.sources.push(format!("memory limit of {} ({file})", format_size(bytes)));
        }
    }
    found.cpu_quota = cpu_quota(root, groups);
    if let Some(quota) = found.cpu_quota.as_ref().filter(|quota| quota.cpus() < found.cpus.len() as f64) {
        found.sources.push(format!("CPU quota of {} ({})", format_cpus(quota.cpus()), quota.file));
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
            found.sources.push(by(file));
        }
    }
    if let Some((allowed, file)) = nearest_set(root, group, node_files) {
        if narrow(&mut found.nodes, &allowed) {
            found.sources.push(by(file));
        }
    }
}

/// Returns the first of these files that contains a set, in the group or its nearest ancestor.
///
/// A group without the controller enabled inherits the set of its ancestor.
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

/// Applies /proc/self/status (`Documentation/filesystems/proc.rst`, 1.1): the affinity within the
/// cpuset.
fn narrow_by_status(root: &dyn Sysfs, found: &mut Confinement) {
    let text = root.optional("/proc/self/status").unwrap_or_default();
    if narrow(&mut found.cpus, &status_set(&text, "Cpus_allowed_list")) {
        found.sources.push("affinity mask (Cpus_allowed_list)".to_owned());
    }
    if narrow(&mut found.nodes, &status_set(&text, "Mems_allowed_list")) {
        found.sources.push("allowed nodes (Mems_allowed_list)".to_owned());
    }
}

/// Returns the affinity of this process; empty if unknown.
pub(super) fn allowed_cpus(root: &dyn Sysfs) -> CpuSet {
    status_set(&root.optional("/proc/self/status").unwrap_or_default(), "Cpus_allowed_list")
}

fn status_set<T: Id>(text: &str, key: &str) -> IdSet<T> {
    let value = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == key);
    value.and_then(|(_, list)| IdSet::parse_list(list).ok()).unwrap_or_default()
}

/// Intersects a set with the permitted ids and returns whether it shrank; ignores an empty
/// intersection.
fn narrow<T: Id>(left: &mut IdSet<T>, allowed: &IdSet<T>) -> bool {
    let both = left.intersection(allowed);
    if both.is_empty() || both == *left {
        return false;
    }
    *left = both;
    true
}

/// Returns the lowest limit of the group and its ancestors, with its file.
fn memory_limit(root: &dyn Sysfs, group: &Group) -> Option<(u64, String)> {
    let limits = group.directories.iter().filter_map(|directory| limit_of(root, group.v2, directory));
    limits.min_by_key(|(bytes, _)| *bytes)
}

/// Returns the limit of one group, with its file.
fn limit_of(root: &dyn Sysfs, v2: bool, directory: &str) -> Option<(u64, String)> {
    let path = format!("{directory}/{}", if v2 { "memory.max" } else { "memory.limit_in_bytes" });
    // Version 2 reports `max` for no limit.
    let bytes: u64 = root.value(&path).ok().filter(|bytes| *bytes < NO_LIMIT)?;
    Some((bytes, path))
}

/// Returns the bytes that this process can allocate before its control group or an ancestor runs
/// out of memory; `None` without a limit.
pub fn memory_left_bytes(root: &dyn Sysfs) -> Option<u64> {
    Groups::read(root).of("memory").and_then(|group| memory_left(root, &group))
}

/// Returns the smallest remaining amount of the group and its ancestors.
fn memory_left(root: &dyn Sysfs, group: &Group) -> Option<u64> {
    let left = |directory: &String| {
        let (limit, _) = limit_of(root, group.v2, directory)?;
        Some(limit.saturating_sub(used_bytes(root, group.v2, directory)))
    };
    group.directories.iter().filter_map(left).min()
}

/// Returns the memory use of a group's hierarchy without page cache, which is reclaimable; 0 if
/// unknown (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`).
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
