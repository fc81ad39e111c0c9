//! CPUs and their position in packages, dies and cores.

use super::confinement;
use super::cpuinfo::CpuInfo;
use super::files::{numbered, set_of, CPUS, PACKAGE_SIBLINGS};
use super::parts::{Cpu, Node};
use crate::ids::{CpuId, NodeId, PackageId};
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::{BTreeMap, BTreeSet};

/// Sets of CPUs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Known {
    /// Online CPUs.
    pub online: CpuSet,
    /// Present CPUs, without possible CPUs that are not plugged in.
    pub present: CpuSet,
    /// Whether sysfs has CPU directories; otherwise positions are unknown.
    pub described: bool,
    /// The reported list of online CPUs, if the kernel's other files contradict it.
    pub contradicted: Option<CpuSet>,
}

/// Finds the CPUs in sysfs (`Documentation/admin-guide/cputopology.rst`), or else in /proc/stat or
/// /proc/cpuinfo.
pub(super) fn known(root: &dyn Sysfs, cpuinfo: &CpuInfo) -> Known {
    let directories: CpuSet =
        root.names(CPUS).iter().filter_map(|name| numbered(name, "cpu")).map(CpuId).collect();
    let reported = |name: &str| set_of(root, CPUS, &[name]).filter(|set| !set.is_empty());
    let listed = reported("online");
    let online = match &listed {
        Some(online) if directories.is_empty() => online.clone(),
        Some(online) => online.intersection(&directories),
        // Kernels before 2.6.26 have no list, but a file for each CPU that can be set offline.
        None => directories.iter().filter(|cpu| is_online(root, *cpu)).collect(),
    };
    if let Some(listed) = listed {
        let running = running(root, &listed, &directories);
        if !running.is_empty() {
            let present = directories.union(&running);
            return Known { online: running, present, described: true, contradicted: Some(listed) };
        }
    }
    if online.is_empty() {
        let online = from_proc(root, cpuinfo);
        return Known { present: online.clone(), online, ..Known::default() };
    }
    let present =
        reported("present").map_or(directories.clone(), |present| present.intersection(&directories));
    let described = !directories.is_empty();
    Known { present: present.union(&online), online, described, contradicted: None }
}

/// Returns all online CPUs if the list of online CPUs lacks one on which this process may run;
/// empty if it does not.
///
/// lxcfs shows containers a list of its own, numbered from 0, while the kernel enforces
/// `Cpus_allowed_list`. A CPU is online if it has a topology, which the kernel removes from offline
/// CPUs.
fn running(root: &dyn Sysfs, listed: &CpuSet, directories: &CpuSet) -> CpuSet {
    let runs =
        |cpu: &CpuId| is_online(root, *cpu) && !root.names(&format!("{CPUS}/cpu{cpu}/topology")).is_empty();
    let suspects = confinement::allowed_cpus(root).difference(listed).intersection(directories);
    if !suspects.iter().any(|cpu| runs(&cpu)) {
        return CpuSet::new();
    }
    directories.iter().filter(runs).collect()
}

fn is_online(root: &dyn Sysfs, cpu: CpuId) -> bool {
    root.optional(&format!("{CPUS}/cpu{cpu}/online")).as_deref() != Some("0")
}

/// Returns the CPUs with a line in /proc/stat (`Documentation/filesystems/proc.rst`, 1.7) or a
/// block in /proc/cpuinfo; both contain only online CPUs.
fn from_proc(root: &dyn Sysfs, cpuinfo: &CpuInfo) -> CpuSet {
    let stat = root.optional("/proc/stat").unwrap_or_default();
    let first_words = stat.lines().filter_map(|line| line.split_whitespace().next());
    let in_stat: CpuSet = first_words.filter_map(|word| numbered(word, "cpu")).map(CpuId).collect();
    if in_stat.is_empty() {
        cpuinfo.processors.iter().map(|processor| processor.id).collect()
    } else {
        in_stat
    }
}

/// Reads the position of every CPU, ascending by id.
///
/// Hardware threads of a core share its position, which is read from one of them.
pub(super) fn read(root: &dyn Sysfs, known: &Known, nodes: &[Node], cpuinfo: &CpuInfo) -> Vec<Cpu> {
    let owner: BTreeMap<CpuId, NodeId> =
        nodes.iter().flat_map(|node| node.cpus.iter().map(|cpu| (cpu, node.id))).collect();
    let siblings_file = if known.described { siblings_file(root, known) } else { None };
    let mut packages = Shared::new("physical_package_id", "package_cpus_list");
    let mut dies = Shared::new("die_id", "die_cpus_list");
    let mut cpus: BTreeMap<CpuId, Cpu> = BTreeMap::new();
    for id in known.online.iter() {
        if cpus.contains_key(&id) {
            continue;
        }
        let read = match known.described {
            true => Cpu {
                package: packages.of(root, id).map(PackageId),
                die: dies.of(root, id),
                ..online_cpu(root, id, siblings_file, known)
            },
            false => Cpu { online: true, ..blank(id) },
        };
        for thread in read.siblings.iter() {
            cpus.entry(thread).or_insert_with(|| Cpu { id: thread, ..read.clone() });
        }
    }
    for id in known.present.difference(&known.online).iter() {
        cpus.insert(id, blank(id));
    }
    for (id, cpu) in &mut cpus {
        cpu.node = owner.get(id).copied();
    }
    let mut cpus: Vec<Cpu> = cpus.into_values().collect();
    fill_from_cpuinfo(&mut cpus, cpuinfo);
    if known.described {
        number_packages(root, &mut cpus);
    }
    number_cores(&mut cpus);
    cpus
}

/// Returns a CPU with unknown position; offline CPUs have no topology.
fn blank(id: CpuId) -> Cpu {
    Cpu {
        id,
        online: false,
        node: None,
        package: None,
        die: None,
        core: None,
        siblings: CpuSet::one(id),
        allowed: false,
        isolated: false,
        core_kind: None,
    }
}

/// Returns the file name for the hardware threads of a core on this kernel, determined once for all
/// CPUs.
///
/// `core_cpus` replaced `thread_siblings` in 5.3; masks are older than lists.
fn siblings_file(root: &dyn Sysfs, known: &Known) -> Option<&'static str> {
    let names: BTreeSet<String> = known
        .online
        .iter()
        .map(|cpu| root.names(&format!("{CPUS}/cpu{cpu}/topology")))
        .find(|names| !names.is_empty())?
        .into_iter()
        .collect();
    ["thread_siblings_list", "core_cpus_list", "thread_siblings", "core_cpus"]
        .into_iter()
        .find(|name| names.contains(*name))
}

fn online_cpu(root: &dyn Sysfs, id: CpuId, siblings_file: Option<&str>, known: &Known) -> Cpu {
    let directory = format!("{CPUS}/cpu{id}/topology");
    let siblings = siblings_file
        .and_then(|name| set_of(root, &directory, &[name]))
        .map(|siblings| siblings.intersection(&known.online))
        .filter(|siblings| siblings.contains(id))
        .unwrap_or_else(|| CpuSet::one(id));
    let number = |name: &str| root.value::<u32>(&format!("{directory}/{name}")).ok();
    Cpu { online: true, core: number("core_id"), siblings, ..blank(id) }
}

/// A number shared by many CPUs, read once for all of them if the kernel lists them (since 5.3).
struct Shared {
    number: &'static str,
    /// `None` if this kernel has no such list: then the number is read for every CPU.
    sharers: Option<&'static str>,
    known: BTreeMap<CpuId, Option<u32>>,
}

impl Shared {
    fn new(number: &'static str, sharers: &'static str) -> Self {
        Self { number, sharers: Some(sharers), known: BTreeMap::new() }
    }

    fn of(&mut self, root: &dyn Sysfs, cpu: CpuId) -> Option<u32> {
        if let Some(number) = self.known.get(&cpu) {
            return *number;
        }
        let directory = format!("{CPUS}/cpu{cpu}/topology");
        // The kernel reports -1 for unknown.
        let number = root.value::<u32>(&format!("{directory}/{}", self.number)).ok();
        let sharers = self.sharers.and_then(|name| set_of(root, &directory, &[name]));
        match sharers {
            Some(sharers) => self.known.extend(sharers.iter().map(|sharer| (sharer, number))),
            None => self.sharers = None,
        }
        number
    }
}

/// Sets positions from /proc/cpuinfo if sysfs has none (containers that hide it).
fn fill_from_cpuinfo(cpus: &mut [Cpu], cpuinfo: &CpuInfo) {
    if cpus.iter().any(|cpu| cpu.package.is_some() || cpu.core.is_some()) {
        return;
    }
    let mut threads: BTreeMap<(PackageId, u32), CpuSet> = BTreeMap::new();
    for processor in &cpuinfo.processors {
        if let (Some(package), Some(core)) = (processor.package, processor.core) {
            threads.entry((package, core)).or_default().insert(processor.id);
        }
    }
    for processor in &cpuinfo.processors {
        let Ok(index) = cpus.binary_search_by_key(&processor.id, |cpu| cpu.id) else { continue };
        let cpu = &mut cpus[index];
        cpu.package = processor.package;
        cpu.core = processor.core;
        if let (Some(package), Some(core)) = (processor.package, processor.core) {
            cpu.siblings = threads[&(package, core)].clone();
        }
    }
}

/// Numbers packages that the kernel lists without a number: `physical_package_id` is -1 on s390,
/// SPARC and older kernels of POWER. Numbers ascend by first CPU and are not those of sockets.
fn number_packages(root: &dyn Sysfs, cpus: &mut [Cpu]) {
    let used = cpus.iter().filter_map(|cpu| cpu.package);
    let mut next = used.max().map_or(0, |last| last.0 + 1);
    for index in 0..cpus.len() {
        let cpu = &cpus[index];
        if !cpu.online || cpu.package.is_some() {
            continue;
        }
        let directory = format!("{CPUS}/cpu{}/topology", cpu.id);
        let Some(members) =
            set_of::<CpuId>(root, &directory, &PACKAGE_SIBLINGS).filter(|members| members.contains(cpu.id))
        else {
            continue;
        };
        let is_member = |cpu: &&mut Cpu| cpu.online && cpu.package.is_none() && members.contains(cpu.id);
        cpus.iter_mut().filter(is_member).for_each(|cpu| cpu.package = Some(PackageId(next)));
        next += 1;
    }
}

/// Makes core numbers unique within their package.
///
/// Kernels before 6.x number cores per node or die on some AMD machines. In such a package the
/// cores are renumbered by their first CPU.
fn number_cores(cpus: &mut [Cpu]) {
    let mut first_of: BTreeMap<(PackageId, u32), Option<CpuId>> = BTreeMap::new();
    let mut ambiguous: BTreeSet<PackageId> = BTreeSet::new();
    for cpu in cpus.iter() {
        if let (Some(package), Some(core)) = (cpu.package, cpu.core) {
            let first = cpu.siblings.first();
            if *first_of.entry((package, core)).or_insert(first) != first {
                ambiguous.insert(package);
            }
        }
    }
    let mut numbers: BTreeMap<PackageId, BTreeMap<Option<CpuId>, u32>> = BTreeMap::new();
    for cpu in cpus.iter_mut() {
        let Some(package) = cpu.package.filter(|package| ambiguous.contains(package)) else { continue };
        let cores = numbers.entry(package).or_default();
        let next = cores.len() as u32;
        cpu.core = Some(*cores.entry(cpu.siblings.first()).or_insert(next));
    }
}
