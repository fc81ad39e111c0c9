//! Where contenders run, and on how much memory.

use numaio_linux::Kernel;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::workload::{Pages, Placement};

/// What all contenders have in common.
#[derive(Clone)]
pub struct Place {
    /// Node of CPUs and memory.
    pub node: NodeId,
    /// One thread on each.
    pub cpus: Vec<CpuId>,
    /// Bytes of each array, of all threads together.
    pub array_bytes: usize,
    /// Pages that memory from malloc gets, so that all contenders have the same.
    pub pages: Pages,
}

impl Place {
    /// The first CPU of the first node; all CPUs of that node, if it has more.
    pub fn all(kernel: &Kernel) -> Vec<Self> {
        let (node, cpus) = first_node(kernel);
        let of = |cpus| Self { node, cpus, array_bytes: array_bytes(kernel), pages: pages(kernel) };
        let mut places = vec![of(cpus[..1].to_vec())];
        if cpus.len() > 1 {
            places.push(of(cpus));
        }
        places
    }

    /// The threads.
    pub fn placement(&self) -> Placement {
        Placement { cpus: self.cpus.iter().copied().collect() }
    }

    /// Bytes of each array of one thread.
    pub fn bytes_per_thread(&self) -> u64 {
        (self.array_bytes / self.cpus.len()) as u64
    }
}

/// The first node with CPUs, and its CPUs; node 0 with all CPUs if the kernel knows no nodes.
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

/// Four times the last-level cache of the first CPU, at least 64 MB.
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
