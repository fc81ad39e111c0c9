//! CPUs and nodes that the kernel allows this process to use.

use numaio_linux::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::sysfs::SysfsExt;

fn allowed(field: &str) -> String {
    let status = Kernel::new().expect("a kernel").text("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or("0").trim().to_owned()
}

/// Returns the first node whose memory may be used.
pub fn node() -> NodeId {
    NodeSet::parse_list(&allowed("Mems_allowed_list")).expect("a list").first().expect("a node")
}

/// Returns all CPUs that may be used.
pub fn cpus() -> CpuSet {
    CpuSet::parse_list(&allowed("Cpus_allowed_list")).expect("a list")
}
