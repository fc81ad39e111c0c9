//! CPUs, node and memory size of the contenders.

use numaio_linux::Kernel;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{Pages, Placement};

/// Setup that all contenders share.
#[derive(Clone)]
pub struct BenchSetup {
    /// Node of the CPUs and the memory.
    pub node: NodeId,
    /// CPUs, one thread each.
    pub cpus: Vec<CpuId>,
    /// Bytes of each array, summed over all threads.
    pub array_bytes: usize,
    /// Page kind of memory from malloc, the same for all contenders.
    pub pages: Pages,
}

impl BenchSetup {
    /// Returns the first CPU of the first node, and all CPUs of that node if there are more.
    pub fn all(kernel: &Kernel) -> Vec<Self> {
        let (node, cpus) = first_node(kernel);
        let of = |cpus| Self { node, cpus, array_bytes: array_bytes(kernel), pages: pages(kernel) };
        let mut places = vec![of(cpus[..1].to_vec())];
        if cpus.len() > 1 {
            places.push(of(cpus));
        }
        places
    }

    /// Returns the placement of the threads.
    pub fn placement(&self) -> Placement {
        Placement { cpus: self.cpus.iter().copied().collect() }
    }

    /// Returns the bytes of each array per thread.
    pub fn bytes_per_thread(&self) -> u64 {
        (self.array_bytes / self.cpus.len()) as u64
    }
}

/// Returns the first node with CPUs, or node 0 with all CPUs for a kernel without NUMA.
fn first_node(kernel: &Kernel) -> (NodeId, Vec<CpuId>) {
    let status = kernel.optional("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let allowed = CpuSet::parse_list(allowed).unwrap_or_default();
    let of_node = |node: u32| {
        let list = kernel.optional(&format!("/sys/devices/system/node/node{node}/cpulist"))?;
        let cpus = CpuSet::parse_list(&list).ok()?.intersection(&allowed);
        Some((NodeId(node), cpus.iter().collect::<Vec<_>>())).filter(|(_, cpus)| !cpus.is_empty())
    };
    (0..64).find_map(of_node).unwrap_or_else(|| (NodeId(0), allowed.iter().collect()))
}

/// Returns four times the last-level cache of the first CPU, at least 64 MB.
fn array_bytes(kernel: &Kernel) -> usize {
    let size = |index: u32| {
        let text = kernel.optional(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"))?;
        text.strip_suffix('K')?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    (4 * (0..8).filter_map(size).max().unwrap_or(0)).next_multiple_of(64_000_000)
}

fn pages(kernel: &Kernel) -> Pages {
    let policy = kernel.optional("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if policy.contains("[always]") {
        Pages::Transparent
    } else {
        Pages::Base
    }
}
