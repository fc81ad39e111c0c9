//! /sys/devices/system/cpu (`Documentation/ABI/stable/sysfs-devices-system-cpu`,
//! `Documentation/admin-guide/cputopology.rst`,
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`).

use super::directory::{room, Dir};
use crate::spec::{CacheSpec, NodeSpec, Sharing, Spec};
use numaio_machine::ids::CpuId;
use numaio_machine::set::CpuSet;
use numaio_machine::tree::Tree;
use std::collections::BTreeMap;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn render(spec: &Spec, tree: &mut Tree) {
    let (present, online) = (spec.present_cpus(), spec.online_cpus());
    Dir::new(tree, CPUS)
        .value("possible", &present)
        .value("present", &present)
        .value("online", &online)
        .value("offline", present.difference(&online))
        .value("isolated", "")
        .value("kernel_max", 8191)
        .value("smt/active", u32::from(spec.nodes.iter().any(|node| node.threads_per_core > 1)))
        .value("smt/control", "on");
    let packages = packages(spec, &online);
    let dies = dies(spec, &online);
    for cpu in spec.offline_cpus.iter() {
        Dir::new(tree, format!("{CPUS}/cpu{cpu}")).value("online", 0);
    }
    let mut first_core: BTreeMap<u32, usize> = BTreeMap::new();
    for node in &spec.nodes {
        let package = &packages[&node.package];
        let die = &dies[&(node.package, node.die)];
        let start = first_core.entry(node.package).or_default();
        for (index, core) in node.cores().iter().enumerate() {
            let threads = core.intersection(&online);
            for cpu in threads.iter() {
                let at = CpuAt { node, core: *start + index, threads: &threads, package, die };
                render_cpu(spec, cpu, &at, room(&present), tree);
            }
        }
        *start += node.cores().len();
    }
    render_frequency(spec, &online, tree);
}

struct CpuAt<'a> {
    node: &'a NodeSpec,
    /// Its core's number within the package.
    core: usize,
    threads: &'a CpuSet,
    package: &'a CpuSet,
    die: &'a CpuSet,
}

fn packages(spec: &Spec, online: &CpuSet) -> BTreeMap<u32, CpuSet> {
    let mut packages: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for node in &spec.nodes {
        packages.entry(node.package).or_default().extend(node.cpus.intersection(online).iter());
    }
    packages
}

fn dies(spec: &Spec, online: &CpuSet) -> BTreeMap<(u32, u32), CpuSet> {
    let mut dies: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
    for node in &spec.nodes {
        dies.entry((node.package, node.die)).or_default().extend(node.cpus.intersection(online).iter());
    }
    dies
}

fn render_cpu(spec: &Spec, cpu: CpuId, at: &CpuAt, bits: u32, tree: &mut Tree) {
    let path = format!("{CPUS}/cpu{cpu}");
    tree.link(&format!("/sys/bus/cpu/devices/cpu{cpu}"), &format!("../../../devices/system/cpu/cpu{cpu}"));
    let mut dir = Dir::new(tree, format!("{path}/topology"));
    dir.value("physical_package_id", at.node.package)
        .value("die_id", at.node.die)
        .value("core_id", at.core)
        .set("core_cpus", "core_cpus_list", at.threads, bits)
        .set("thread_siblings", "thread_siblings_list", at.threads, bits)
        .set("die_cpus", "die_cpus_list", at.die, bits)
        .set("package_cpus", "package_cpus_list", at.package, bits)
        .set("core_siblings", "core_siblings_list", at.package, bits);
    // CPU 0 of x86 cannot go offline, and has no file for it.
    if cpu != CpuId(0) {
        Dir::new(tree, &path).value("online", 1);
    }
    for (index, cache) in spec.caches.iter().enumerate() {
        let sharing = match cache.shared_by {
            Sharing::Core => at.threads.clone(),
            Sharing::Node => at.node.cpus.intersection(at.package),
            Sharing::Package => at.package.clone(),
        };
        render_cache(cache, &sharing, bits, Dir::new(tree, format!("{path}/cache/index{index}")));
    }
}

fn render_cache(cache: &CacheSpec, sharing: &CpuSet, bits: u32, mut dir: Dir) {
    let line_of_sets = u64::from(cache.line_bytes.max(1)) * u64::from(cache.ways.max(1));
    dir.value("id", sharing.first().map_or(0, |cpu| cpu.0))
        .value("level", cache.level)
        .value("type", &cache.kind)
        .value("size", format!("{}K", cache.bytes >> 10))
        .value("coherency_line_size", cache.line_bytes)
        .value("ways_of_associativity", cache.ways)
        .value("number_of_sets", cache.bytes / line_of_sets)
        .value("physical_line_partition", 1)
        .set("shared_cpu_map", "shared_cpu_list", sharing, bits);
}

/// Frequencies in kHz (`Documentation/admin-guide/pm/cpufreq.rst`).
fn render_frequency(spec: &Spec, online: &CpuSet, tree: &mut Tree) {
    let conditions = &spec.conditions;
    if let Some(turbo) = conditions.turbo {
        Dir::new(tree, format!("{CPUS}/cpufreq")).value("boost", u32::from(turbo));
    }
    let Some(governor) = &conditions.governor else { return };
    let (lowest, highest) =
        (u64::from(conditions.frequency_mhz.0) * 1000, u64::from(conditions.frequency_mhz.1) * 1000);
    let now = if governor == "powersave" { lowest } else { highest };
    for cpu in online.iter() {
        let policy = format!("{CPUS}/cpufreq/policy{cpu}");
        Dir::new(tree, &policy)
            .value("affected_cpus", cpu)
            .value("related_cpus", cpu)
            .value("scaling_driver", "acpi-cpufreq")
            .value("scaling_governor", governor)
            .value("scaling_available_governors", "performance powersave schedutil")
            .value("scaling_cur_freq", now)
            .value("scaling_min_freq", lowest)
            .value("scaling_max_freq", highest)
            .value("cpuinfo_min_freq", lowest)
            .value("cpuinfo_max_freq", highest);
        Dir::new(tree, format!("{CPUS}/cpu{cpu}")).link("cpufreq", &policy);
    }
}
