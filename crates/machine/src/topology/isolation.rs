//! CPUs that the scheduler leaves to special programs.

use super::cgroup::Groups;
use super::files::CPUS;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};

/// Returns the isolated CPUs: `isolcpus` and `nohz_full`
/// (`Documentation/admin-guide/kernel-parameters.txt`,
/// `Documentation/ABI/testing/sysfs-devices-system-cpu`), and CPUs of isolated cpuset partitions
/// (`Documentation/admin-guide/cgroup-v2.rst`, `cpuset.cpus.partition`).
pub(super) fn isolated(root: &dyn Sysfs, groups: &Groups) -> CpuSet {
    // Without isolated CPUs the files are empty or contain "(null)".
    let list = |path: &str| {
        let text = root.optional(path);
        text.and_then(|text| CpuSet::parse_list(&text).ok()).unwrap_or_default()
    };
    let by_kernel = ["isolated", "nohz_full"].iter().map(|name| list(&format!("{CPUS}/{name}")));
    let all = by_kernel.fold(CpuSet::new(), |all, set| all.union(&set));
    let Some(group) = groups.of("cpuset").filter(|group| group.v2) else { return all };
    let of_path = group.directories.iter().map(|directory| {
        // Only the root group lists the CPUs of all isolated partitions, since 6.7.
        let listed = list(&format!("{directory}/cpuset.cpus.isolated"));
        let kind = root.optional(&format!("{directory}/cpuset.cpus.partition"));
        match kind.as_deref() {
            Some("isolated") => listed.union(&list(&format!("{directory}/cpuset.cpus.effective"))),
            _ => listed,
        }
    });
    of_path.fold(all, |all, set| all.union(&set))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn combines_the_kernel_and_partitions() {
        let mut tree = Tree::new();
        tree.file("/sys/devices/system/cpu/isolated", "\n");
        assert_eq!(isolated(&tree, &Groups::read(&tree)), CpuSet::new());
        tree.file("/sys/devices/system/cpu/isolated", "2-3\n")
            .file("/sys/devices/system/cpu/nohz_full", "(null)\n");
        assert_eq!(isolated(&tree, &Groups::read(&tree)).to_string(), "2-3");
        tree.file("/sys/devices/system/cpu/nohz_full", "4\n")
            .file("/proc/self/cgroup", "0::/rt/job\n")
            .file("/proc/self/mountinfo", "30 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n")
            .file("/cg/cpuset.cpus.isolated", "8\n")
            .file("/cg/rt/cpuset.cpus.partition", "isolated\n")
            .file("/cg/rt/cpuset.cpus.effective", "6-7\n");
        assert_eq!(isolated(&tree, &Groups::read(&tree)).to_string(), "2-4,6-8");
        tree.file(
            "/cg/rt/cpuset.cpus.partition",
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
        );
        assert_eq!(isolated(&tree, &Groups::read(&tree)).to_string(), "2-4,8");
    }
}
