//! /proc, DMI and the control groups: the machine and this process
//! (`Documentation/filesystems/proc.rst`, `Documentation/admin-guide/cgroup-v2.rst`).

use super::directory::{mask, room, Dir};
use crate::spec::{NodeSpec, Spec};
use numaio_machine::ids::{CpuId, Id};
use numaio_machine::set::{IdSet, NodeSet};
use numaio_machine::tree::Tree;
use std::collections::BTreeMap;
use std::fmt::Write;

/// This process.
pub(super) const OWN_PID: u32 = 4242;
const IRQBALANCE_PID: u32 = 812;

pub(super) fn render(spec: &Spec, tree: &mut Tree) {
    tree.file("/proc/version", format!("Linux version {} (numaio@simulated) #1 SMP\n", spec.kernel));
    tree.file("/proc/cmdline", "quiet\n");
    Dir::new(tree, "/proc/sys/kernel")
        .value("osrelease", &spec.kernel)
        .value("ostype", "Linux")
        .value("arch", &spec.architecture)
        .value("hostname", &spec.name)
        .value("random/boot_id", "5e1f0ad1-0000-4000-8000-000000000001");
    Dir::new(tree, "/proc/sys/net/core").value("rps_sock_flow_entries", 0);
    if let Some(mode) = spec.conditions.numa_balancing {
        numa_balancing(mode, tree);
    }
    render_dmi(spec, tree);
    tree.file("/proc/cpuinfo", cpuinfo(spec));
    render_processes(spec, tree);
    render_cgroup(spec, tree);
}

/// Writes the setting of automatic NUMA balancing.
pub(crate) fn numa_balancing(mode: u32, tree: &mut Tree) {
    Dir::new(tree, "/proc/sys/kernel").value("numa_balancing", mode);
}

fn render_dmi(spec: &Spec, tree: &mut Tree) {
    Dir::new(tree, "/sys/devices/virtual/dmi/id")
        .value("sys_vendor", &spec.vendor)
        .value("product_name", &spec.product)
        .value("product_version", "1")
        .value("board_name", &spec.product);
    Dir::new(tree, "/sys/class/dmi").link("id", "/sys/devices/virtual/dmi/id");
}

fn cpuinfo(spec: &Spec) -> String {
    let online = spec.online_cpus();
    let mut first_core: BTreeMap<u32, usize> = BTreeMap::new();
    let mut blocks: BTreeMap<CpuId, String> = BTreeMap::new();
    for node in &spec.nodes {
        let start = first_core.entry(node.package).or_default();
        let cores = node.cores();
        for (index, core) in cores.iter().enumerate() {
            for cpu in core.intersection(&online).iter() {
                let block = match spec.architecture.as_str() {
                    "aarch64" => block_of_arm(cpu),
                    _ => block_of_x86(spec, node, cpu, *start + index),
                };
                blocks.insert(cpu, block);
            }
        }
        *start += cores.len();
    }
    blocks.into_values().collect()
}

fn block_of_x86(spec: &Spec, node: &NodeSpec, cpu: CpuId, core: usize) -> String {
    use numaio_machine::workload::CopyLoop;
    let mut flags =
        String::from("fpu tsc msr pae cx8 sep cmov mmx fxsr sse sse2 ht syscall nx lm constant_tsc rep_good");
    let features = [
        (spec.loops.contains(&CopyLoop::Avx2) || spec.loops.contains(&CopyLoop::Avx512), " avx avx2"),
        (spec.loops.contains(&CopyLoop::RepMovsb), " erms"),
        (spec.loops.contains(&CopyLoop::Avx512), " avx512f avx512bw avx512vl"),
        (spec.conditions.virtual_machine, " hypervisor"),
    ];
    features.iter().filter(|(has, _)| *has).for_each(|(_, feature)| flags += feature);
    let in_package = spec.nodes.iter().filter(|other| other.package == node.package);
    let (siblings, cores) =
        in_package.fold((0, 0), |(cpus, cores), node| (cpus + node.cpus.len(), cores + node.cores().len()));
    format!(
        "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: {}\nstepping\t: 8\n\
         cpu MHz\t\t: {}.000\nphysical id\t: {}\nsiblings\t: {siblings}\ncore id\t\t: {core}\ncpu cores\t: {cores}\n\
         flags\t\t: {flags}\n\n",
        spec.cpu_model, spec.conditions.frequency_mhz.1, node.package
    )
}

/// arm64 names no model here; tools know it by implementer and part.
fn block_of_arm(cpu: CpuId) -> String {
    format!(
        "processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm aes crc32 atomics cpuid\n\
         CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
    )
}

fn render_processes(spec: &Spec, tree: &mut Tree) {
    tree.link("/proc/self", &OWN_PID.to_string());
    tree.file("/proc/1/comm", "systemd\n");
    tree.file(&format!("/proc/{OWN_PID}/comm"), "numaio\n");
    if spec.conditions.irqbalance {
        tree.file(&format!("/proc/{IRQBALANCE_PID}/comm"), "irqbalance\n");
    }
    let possible: NodeSet = spec.nodes.iter().map(|node| node.id).collect();
    let mut status = format!("Name:\tnumaio\nState:\tR (running)\nPid:\t{OWN_PID}\nThreads:\t1\n");
    status += &allowed("Cpus", &spec.allowed_cpus(), room(&spec.present_cpus()));
    status += &allowed("Mems", &spec.allowed_nodes(), room(&possible.union(&spec.offline_nodes)));
    tree.file(&format!("/proc/{OWN_PID}/status"), status);
}

fn allowed<T: Id>(what: &str, set: &IdSet<T>, bits: u32) -> String {
    let mut lines = String::new();
    let _ = write!(lines, "{what}_allowed:\t{}\n{what}_allowed_list:\t{set}\n", mask(set, bits));
    lines
}

/// Version 2, mounted where systemd mounts it; only what confines is written into groups other than
/// the root.
fn render_cgroup(spec: &Spec, tree: &mut Tree) {
    let cgroup = spec.confinement.cgroup.as_str();
    tree.file(&format!("/proc/{OWN_PID}/cgroup"), format!("0::{cgroup}\n"));
    tree.file(
        &format!("/proc/{OWN_PID}/mountinfo"),
        "22 1 0:21 / /proc rw,relatime - proc proc rw\n23 1 0:22 / /sys rw,relatime - sysfs sysfs rw\n\
         31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
    );
    let mounts = "proc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    tree.file(&format!("/proc/{OWN_PID}/mounts"), mounts);
    tree.link("/proc/mounts", "self/mounts");
    let root = "/sys/fs/cgroup";
    Dir::new(tree, root).value("cgroup.controllers", "cpuset cpu io memory");
    Dir::new(tree, root)
        .value("cpuset.cpus.effective", spec.online_cpus())
        .value("cpuset.mems.effective", spec.memory_nodes().map(|node| node.id).collect::<NodeSet>());
    if cgroup == "/" {
        return;
    }
    let confinement = &spec.confinement;
    let limit = confinement.memory_limit_bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
    Dir::new(tree, format!("{root}{cgroup}"))
        .value("cgroup.controllers", "cpuset cpu io memory")
        .value("cpuset.cpus", confinement.cpus.clone().unwrap_or_default())
        .value("cpuset.mems", confinement.nodes.clone().unwrap_or_default())
        .value("cpuset.cpus.effective", spec.allowed_cpus())
        .value("cpuset.mems.effective", spec.allowed_nodes())
        .value("memory.max", limit);
}
