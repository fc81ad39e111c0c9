//! Kinds of cores: fast and efficient ones on one machine.

use super::files::{set_of, CPUS};
use super::parts::{CoreKind, Cpu};
use crate::ids::CpuId;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

/// Ratio from which capacities count as one kind: firmware grades equal cores a few percent apart.
const SAME_KIND: f64 = 0.9;

/// PMUs of Intel's kinds of cores, fastest first (`Documentation/arch/x86/topology.rst`,
/// `tools/perf/Documentation/intel-hybrid.txt`).
const PMUS: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// Sets the kind of every online CPU if there are several kinds.
///
/// Sources are `cpu_capacity` (`Documentation/ABI/testing/sysfs-devices-system-cpu`), which arm64
/// and recent x86 kernels have, or else the PMUs of Intel's hybrids.
pub(super) fn fill(root: &dyn Sysfs, cpus: &mut [Cpu]) {
    let kinds = by_capacity(root, cpus);
    let kinds = if kinds.is_empty() { by_pmu(root) } else { kinds };
    for cpu in cpus.iter_mut().filter(|cpu| cpu.online) {
        cpu.core_kind = kinds.get(&cpu.id).copied();
    }
}

fn by_capacity(root: &dyn Sysfs, cpus: &[Cpu]) -> BTreeMap<CpuId, CoreKind> {
    let capacity = |cpu: CpuId| root.value::<u32>(&format!("{CPUS}/cpu{cpu}/cpu_capacity")).ok();
    let online = || cpus.iter().filter(|cpu| cpu.online);
    if online().next().and_then(|cpu| capacity(cpu.id)).is_none() {
        return BTreeMap::new();
    }
    // Threads of a core share its capacity.
    let cores = online().filter(|cpu| cpu.siblings.first().is_none_or(|first| first == cpu.id));
    let of_core: Vec<(&Cpu, u32)> = cores.filter_map(|cpu| Some((cpu, capacity(cpu.id)?))).collect();
    let levels = levels(of_core.iter().map(|(_, capacity)| *capacity).collect());
    if levels.len() < 2 {
        return BTreeMap::new();
    }
    let kind_of = |capacity: u32| {
        let rank = levels.iter().position(|level| f64::from(capacity) > f64::from(*level) * SAME_KIND);
        let rank = rank.unwrap_or(levels.len() - 1);
        CoreKind { rank: rank as u32, capacity: Some(levels[rank]) }
    };
    let threads = of_core.iter().flat_map(|(cpu, capacity)| {
        let kind = kind_of(*capacity);
        cpu.siblings.iter().map(move |thread| (thread, kind))
    });
    threads.collect()
}

/// Returns the largest capacity of each kind, descending.
fn levels(mut capacities: Vec<u32>) -> Vec<u32> {
    capacities.sort_unstable_by(|a, b| b.cmp(a));
    capacities.dedup_by(|next, level| f64::from(*next) > f64::from(*level) * SAME_KIND);
    capacities
}

fn by_pmu(root: &dyn Sysfs) -> BTreeMap<CpuId, CoreKind> {
    let sets = PMUS.iter().filter_map(|pmu| {
        let cpus: CpuSet = set_of(root, &format!("/sys/devices/{pmu}"), &["cpus"])?;
        (!cpus.is_empty()).then_some(cpus)
    });
    let sets: Vec<CpuSet> = sets.collect();
    if sets.len() < 2 {
        return BTreeMap::new();
    }
    let of_set = |(rank, cpus): (usize, &CpuSet)| {
        let kind = CoreKind { rank: rank as u32, capacity: None };
        cpus.iter().map(move |cpu| (cpu, kind)).collect::<Vec<_>>()
    };
    sets.iter().enumerate().flat_map(of_set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_equal_capacities_are_one_kind() {
        // Capacities of a DGX Spark: ten fast and ten efficient cores.
        assert_eq!(levels(vec![718, 997, 1004, 1017, 1024, 718]), [1024, 718]);
        assert_eq!(levels(vec![1024, 1024]), [1024]);
        assert_eq!(levels(vec![]), [0; 0]);
    }
}
