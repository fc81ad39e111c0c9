//! Limits of CPU time by control groups.

use super::cgroup::{Group, Groups};
use super::parts::CpuQuota;
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};

/// How often control groups stopped their processes because the quota of a period was used up;
/// summed over the group of this process and its ancestors
/// (`Documentation/scheduler/sched-bwc.rst`, "Statistics").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CpuThrottling {
    /// Periods that passed with runnable processes.
    pub periods: u64,
    /// Periods in which processes were stopped.
    pub throttled_periods: u64,
    /// Total time for which processes were stopped, in microseconds.
    pub throttled_us: u64,
}

/// Returns the lowest CPU quota of the group and its ancestors.
pub(super) fn cpu_quota(root: &dyn Sysfs, groups: &Groups) -> Option<CpuQuota> {
    let group = groups.of("cpu")?;
    let quotas = group.directories.iter().filter_map(|directory| quota_of(root, group.v2, directory));
    quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
}

/// Reads the throttling of this process's control groups; `None` without a CPU controller.
pub fn cpu_throttling(root: &dyn Sysfs) -> Option<CpuThrottling> {
    let Group { v2, directories, .. } = Groups::read(root).of("cpu")?;
    let of_groups = directories.iter().filter_map(|directory| throttling_of(root, v2, directory));
    of_groups.reduce(|sum, one| CpuThrottling {
        periods: sum.periods.saturating_add(one.periods),
        throttled_periods: sum.throttled_periods.saturating_add(one.throttled_periods),
        throttled_us: sum.throttled_us.saturating_add(one.throttled_us),
    })
}

/// Reads the quota of one group: `cpu.max` (`QUOTA PERIOD`, `max` for none) or `cpu.cfs_quota_us`
/// (-1 for none) with `cpu.cfs_period_us`.
fn quota_of(root: &dyn Sysfs, v2: bool, directory: &str) -> Option<CpuQuota> {
    let file = format!("{directory}/{}", if v2 { "cpu.max" } else { "cpu.cfs_quota_us" });
    let text = root.optional(&file)?;
    let mut words = text.split_whitespace();
    let quota_us: u64 = words.next()?.parse().ok().filter(|quota| *quota > 0)?;
    let period_us: u64 = match v2 {
        // The kernel's default period.
        true => words.next().map_or(Some(100_000), |word| word.parse().ok())?,
        false => root.value(&format!("{directory}/cpu.cfs_period_us")).ok()?,
    };
    (period_us > 0).then_some(CpuQuota { quota_us, period_us, file })
}

fn throttling_of(root: &dyn Sysfs, v2: bool, directory: &str) -> Option<CpuThrottling> {
    let text = root.optional(&format!("{directory}/cpu.stat"))?;
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let throttled_us = match v2 {
        true => value("throttled_usec"),
        false => value("throttled_time").map(|ns| ns / 1000),
    };
    // A group without the controller has only usage in this file.
    Some(CpuThrottling {
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled_us: throttled_us.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn v2(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new();
        tree.file("/proc/self/cgroup", "0::/pod/7\n")
            .file("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        for (file, text) in files {
            tree.file(&format!("/sys/fs/cgroup/{file}"), *text);
        }
        tree
    }

    fn cpus(tree: &Tree) -> Option<f64> {
        cpu_quota(tree, &Groups::read(tree)).map(|quota| quota.cpus())
    }

    #[test]
    fn lowest_quota_of_the_path_counts() {
        assert_eq!(cpus(&v2(&[("pod/7/cpu.max", "max 100000\n")])), None);
        assert_eq!(
            cpus(&v2(&[("pod/7/cpu.max", "400000 100000\n"), ("pod/cpu.max", "50000 25000\n")])),
            Some(2.0)
        );
        assert_eq!(cpus(&v2(&[("cpu.max", "150000\n")])), Some(1.5));
        for bad in ["", "0 100000", "-1 100000", "100000 0", "x y"] {
            assert_eq!(cpus(&v2(&[("cpu.max", bad)])), None, "{bad}");
        }
    }

    #[test]
    fn reads_version_1() {
        let mut tree = Tree::new();
        tree.file("/proc/self/cgroup", "4:cpu,cpuacct:/job\n")
            .file("/proc/self/mountinfo", "30 24 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n")
            .file("/cpu/cpu.cfs_quota_us", "-1\n")
            .file("/cpu/cpu.cfs_period_us", "100000\n")
            .file("/cpu/job/cpu.cfs_quota_us", "250000\n")
            .file("/cpu/job/cpu.cfs_period_us", "100000\n")
            .file("/cpu/job/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 7000000\n");
        assert_eq!(cpus(&tree), Some(2.5));
        let throttling = CpuThrottling { periods: 10, throttled_periods: 4, throttled_us: 7000 };
        assert_eq!(cpu_throttling(&tree), Some(throttling));
    }

    #[test]
    fn throttling_is_summed_over_the_path() {
        let stat = "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 70\n";
        let tree = v2(&[("pod/7/cpu.stat", "usage_usec 5\n"), ("pod/cpu.stat", stat), ("cpu.stat", stat)]);
        let throttling = CpuThrottling { periods: 20, throttled_periods: 6, throttled_us: 140 };
        assert_eq!(cpu_throttling(&tree), Some(throttling));
        assert_eq!(cpu_throttling(&v2(&[("cpu.stat", "usage_usec 5\n")])), None);
    }
}
