//! Directories of nodes and CPUs, and reading of names and sets in them.

use crate::ids::{Id, MAX_ID};
use crate::set::IdSet;
use crate::sysfs::{Sysfs, SysfsExt};

/// Directory of nodes.
pub(crate) const NODES: &str = "/sys/devices/system/node";
/// Directory of CPUs.
pub(crate) const CPUS: &str = "/sys/devices/system/cpu";

/// Files with the CPUs of a package: lists and masks, since 5.3 and before.
pub(super) const PACKAGE_SIBLINGS: [&str; 4] =
    ["package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings"];

/// Parses the number in a name such as `node12`; `None` unless it is `prefix` and digits.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits =
        name.strip_prefix(prefix).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| *number <= MAX_ID)
}

/// Reads the first of these files in a directory that contains a set of ids, as a list or a mask.
pub(super) fn set_of<T: Id>(root: &dyn Sysfs, directory: &str, names: &[&str]) -> Option<IdSet<T>> {
    names.iter().find_map(|name| {
        let text = root.optional(&format!("{directory}/{name}"))?;
        match *name {
            "cpumap" | "shared_cpu_map" | "thread_siblings" | "core_cpus" | "core_siblings"
            | "package_cpus" | "local_cpus" => IdSet::parse_mask(&text).ok(),
            _ => IdSet::parse_list(&text).ok(),
        }
    })
}
