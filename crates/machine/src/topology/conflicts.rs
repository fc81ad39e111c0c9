//! Contradictions between files that describe the same fact.
//!
//! The value that the kernel enforces is used; a finding names both files.

use super::cpus::Known;
use super::files::{set_of, CPUS, NODES, PACKAGE_SIBLINGS};
use super::memory::parse_meminfo;
use super::parts::{Cpu, Node};
use crate::finding::{Finding, Severity};
use crate::ids::PackageId;
use crate::set::CpuSet;
use crate::surroundings::Surroundings;
use crate::sysfs::{Sysfs, SysfsExt};
use crate::units::format_size;
use std::collections::BTreeMap;

/// Relative difference of two totals of memory from which they contradict each other: the kernel
/// counts memory that it reserves while it starts in one of them only.
const MEMORY_TOLERANCE: f64 = 0.05;

/// Finds contradictions about CPUs, packages and memory.
pub(super) fn find(
    root: &dyn Sysfs,
    known: &Known,
    cpus: &[Cpu],
    nodes: &[Node],
    surroundings: &Surroundings,
) -> Vec<Finding> {
    let of_cpus = known.contradicted.as_ref().map(|listed| online(known, listed, surroundings));
    let found = [of_cpus, memory(root, nodes, surroundings)];
    found.into_iter().flatten().chain(packages(root, known, cpus)).collect()
}

fn online(known: &Known, listed: &CpuSet, surroundings: &Surroundings) -> Finding {
    let in_container = surroundings.container.is_some();
    Finding::new(
        if in_container { Severity::Note } else { Severity::Warning },
        "online-cpus-conflict",
        "machine",
        format!(
            "The list of online CPUs is {listed}, but this process may run on others; CPUs {} are used.",
            known.online
        ),
        format!("{CPUS}/online: {listed}; /proc/self/status: Cpus_allowed_list lists others; {CPUS}/cpu*/topology"),
        "None for numaio. Programs that count CPUs by this list start too few or misplaced threads: lxcfs shows \
         containers a list of its own.",
    )
}

/// Compares the memory of all nodes with that of the machine.
fn memory(root: &dyn Sysfs, nodes: &[Node], surroundings: &Surroundings) -> Option<Finding> {
    let total = parse_meminfo(&root.optional("/proc/meminfo")?)?.total_bytes;
    let memories = nodes.iter().filter_map(|node| node.memory);
    let sum = memories.fold(0u64, |sum, memory| sum.saturating_add(memory.total_bytes));
    let differs = sum.abs_diff(total) as f64 > sum.max(total) as f64 * MEMORY_TOLERANCE;
    if sum == 0 || total == 0 || !differs {
        return None;
    }
    let in_container = surroundings.container.is_some() && total < sum;
    let (severity, remedy) = match (in_container, surroundings.virtual_machine) {
        (true, _) => (
            Severity::Note,
            "None for numaio: lxcfs shows containers their memory limit as the memory of the machine.",
        ),
        (false, true) => (
            Severity::Note,
            "None if the hypervisor plugs or balloons memory; else compare its description of the guest's nodes.",
        ),
        (false, false) => (
            Severity::Warning,
            "Compare with the memory that the firmware reports (dmidecode -t memory), and update the firmware.",
        ),
    };
    Some(Finding::new(
        severity,
        "memory-conflict",
        "machine",
        format!("The nodes have {} of memory, but the machine has {}.", format_size(sum), format_size(total)),
        format!("{NODES}/node*/meminfo and /proc/meminfo: MemTotal"),
        remedy,
    ))
}

/// Compares the package of one CPU with those of the CPUs that the kernel lists in its package.
fn packages(root: &dyn Sysfs, known: &Known, cpus: &[Cpu]) -> Option<Finding> {
    if !known.described {
        return None;
    }
    let mut first_of: BTreeMap<PackageId, &Cpu> = BTreeMap::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        if let Some(package) = cpu.package {
            first_of.entry(package).or_insert(cpu);
        }
    }
    let lists = first_of.iter().filter_map(|(package, cpu)| {
        let directory = format!("{CPUS}/cpu{}/topology", cpu.id);
        let listed: CpuSet = set_of(root, &directory, &PACKAGE_SIBLINGS)?.intersection(&known.online);
        let same: CpuSet =
            cpus.iter().filter(|cpu| cpu.online && cpu.package == Some(*package)).map(|cpu| cpu.id).collect();
        let last = listed.iter().last()?;
        let other = root.value::<u32>(&format!("{CPUS}/cpu{last}/topology/physical_package_id")).ok();
        let agrees = listed == same && other.is_none_or(|other| other == package.0);
        (!agrees).then_some((*package, cpu.id, listed, same, last, other))
    });
    let (package, cpu, listed, same, last, other) = lists.into_iter().next()?;
    let other = other.map_or_else(|| "absent".to_owned(), |other| other.to_string());
    Some(Finding::new(
        Severity::Warning,
        "package-conflict",
        format!("package {package}"),
        "The kernel's files disagree about the CPUs of this package.",
        format!(
            "{CPUS}/cpu{cpu}/topology: package {package} with CPUs {listed}, but CPUs {same} have this id; \
             cpu{last}/topology/physical_package_id: {other}"
        ),
        "Update the firmware, or the hypervisor's CPU model; until then, which nodes share a package is unreliable.",
    ))
}
