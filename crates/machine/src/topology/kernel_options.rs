//! Options of the kernel's command line by which a machine shows less than it has
//! (`Documentation/admin-guide/kernel-parameters.txt`).

use crate::sysfs::{Sysfs, SysfsExt};

/// Options with which the kernel reads no nodes from the firmware.
const HIDES_NODES: [&str; 3] = ["numa=off", "numa=noacpi", "acpi=off"];
/// Beginnings of options with which the kernel divides one node into several; s390 had the second.
const EMULATES_NODES: [&str; 2] = ["numa=fake=", "numa=emu"];
/// Beginnings of options that limit the number of CPUs.
const LIMITS_CPUS: [&str; 4] = ["maxcpus=", "nr_cpus=", "possible_cpus=", "nosmp"];

/// Returns the option that hides the nodes of the firmware.
pub(crate) fn hiding_nodes(root: &dyn Sysfs) -> Option<String> {
    first(root, &HIDES_NODES)
}

/// Returns the option that made the nodes.
pub(crate) fn emulating_nodes(root: &dyn Sysfs) -> Option<String> {
    first(root, &EMULATES_NODES)
}

/// Returns the option that limits the number of CPUs.
pub(crate) fn limiting_cpus(root: &dyn Sysfs) -> Option<String> {
    first(root, &LIMITS_CPUS)
}

/// Returns the option that limits memory; `mem=nopentium` does not.
pub(crate) fn limiting_memory(root: &dyn Sysfs) -> Option<String> {
    let has_size = |option: &String| {
        option.strip_prefix("mem=").is_some_and(|size| size.starts_with(|c: char| c.is_ascii_digit()))
    };
    kernel_option(root, "mem=").filter(has_size)
}

fn first(root: &dyn Sysfs, starts: &[&str]) -> Option<String> {
    starts.iter().find_map(|start| kernel_option(root, start))
}

/// Returns the first option of the kernel's command line that begins with a text.
fn kernel_option(root: &dyn Sysfs, start: &str) -> Option<String> {
    let options = root.optional("/proc/cmdline")?;
    options.split_whitespace().find(|option| option.starts_with(start)).map(str::to_owned)
}
