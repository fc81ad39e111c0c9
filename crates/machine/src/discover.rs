//! Discovery of a complete machine.

use crate::devices::{Bridges, Device, Scan, FUNCTIONS};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::topology::{cpuinfo, Topology};
use crate::{conditions, findings, topology};
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// Minimum number of PCI functions or CPUs for which a second thread reads faster than it starts.
const PARALLEL_THRESHOLD: usize = 64;

/// Reads the nodes, devices and findings of the machine below `root`.
///
/// Never fails: unreadable files leave values out or add findings. A large machine has tens of
/// thousands of files, which two threads read in parallel.
pub fn discover(root: &(dyn Sysfs + Sync)) -> Topology {
    let mode = ReadMode::for_machine(root);
    let read = || {
        // The kernel takes long to format it for thousands of CPUs: it is read once.
        let cpuinfo = cpuinfo::read(root);
        let topology = topology::read_with(root, &cpuinfo);
        let is_virtual = topology.surroundings.virtual_machine;
        (topology, conditions::read_with(root, &cpuinfo, is_virtual))
    };
    let (mut machine, conditions) = read_machine(root, mode, read);
    let conflicts = |devices| findings::find_locality_conflicts(root, &machine, devices);
    let (some, others) = machine.devices.split_at(machine.devices.len() / 2);
    let ((found, some), others) =
        mode.join(|| (findings::find(root, &machine, &conditions), conflicts(some)), || conflicts(others));
    machine.findings.extend(found.into_iter().chain(some).chain(others));
    machine
        .findings
        .sort_by(|a, b| (b.severity, &a.rule, &a.subject).cmp(&(a.severity, &b.rule, &b.subject)));
    machine
}

/// Reads the machine without caches and without findings about settings and devices.
///
/// Takes half the time of [`discover`]; meant for commands that start a program.
pub fn discover_quick(root: &(dyn Sysfs + Sync)) -> Topology {
    read_machine(root, ReadMode::for_machine(root), || (topology::outline(root), ())).0
}

/// Reads the nodes and more with `nodes`, and all devices.
fn read_machine<M>(
    root: &(dyn Sysfs + Sync),
    mode: ReadMode,
    nodes: impl FnOnce() -> (Topology, M),
) -> (Topology, M) {
    let scan = OnceLock::new();
    let functions = || scan.get_or_init(|| Scan::new(root)).functions(root);
    let (((mut machine, more), some), others) = mode.join(|| (nodes(), functions()), functions);
    let found = findings::find_in_resources(root, &machine);
    machine.findings.extend(found);
    let functions: Vec<Device> = some.into_iter().chain(others).collect();
    let bridges = Bridges::above(&functions);
    let (some, others) = mode.join(|| bridges.read(root), || bridges.read(root));
    let scan = scan.get_or_init(|| Scan::new(root));
    let found = functions.into_iter().chain(some).chain(others);
    machine.devices = scan.finish(root, &machine.cpus_by_node(), found);
    machine.identity.fingerprint = topology::fingerprint(&machine);
    (machine, more)
}

/// Number of threads that read a machine.
#[derive(Debug, Clone, Copy)]
enum ReadMode {
    /// The calling thread only.
    Sequential,
    /// The calling thread and a second thread.
    Parallel,
}

impl ReadMode {
    fn for_machine(root: &dyn Sysfs) -> Self {
        let has_many_cpus = topology::listed_cpus(root).len() >= PARALLEL_THRESHOLD;
        let has_many_functions = || root.names(FUNCTIONS).len() >= PARALLEL_THRESHOLD;
        match has_many_cpus || has_many_functions() {
            true => Self::Parallel,
            false => Self::Sequential,
        }
    }

    /// Runs two functions, in parallel if this mode has a second thread.
    fn join<A, B: Send>(self, first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
        match self {
            Self::Sequential => (first(), second()),
            Self::Parallel => thread::scope(|scope| {
                let second = scope.spawn(second);
                let first = first();
                (first, second.join().unwrap_or_else(|panic| resume_unwind(panic)))
            }),
        }
    }
}

/// Whether there are files of a machine below this root at all.
pub fn is_machine(root: &dyn Sysfs) -> bool {
    root.list("/sys/devices/system").is_ok() || root.read("/proc/cpuinfo").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn quick_discovery_omits_caches_and_setting_findings() {
        let mut tree = Tree::new();
        tree.file("/proc/sys/kernel/numa_balancing", "1\n");
        for node in 0..2 {
            let folder = format!("/sys/devices/system/node/node{node}");
            tree.file(&format!("{folder}/cpulist"), format!("{node}\n"));
            tree.file(&format!("{folder}/meminfo"), format!("Node {node} MemTotal: 4194304 kB\n"));
            let cpu = format!("/sys/devices/system/cpu/cpu{node}");
            tree.file(&format!("{cpu}/topology/core_id"), "0\n");
            for (file, text) in [("level", "1"), ("type", "Data"), ("size", "32K"), ("shared_cpu_list", "0")]
            {
                tree.file(&format!("{cpu}/cache/index0/{file}"), text);
            }
        }
        tree.file("/sys/devices/system/cpu/online", "0-1\n");
        let (whole, discover_quick) = (discover(&tree), discover_quick(&tree));
        let balancing = |machine: &Topology| machine.findings.iter().any(|it| it.rule == "numa-balancing");
        assert!(balancing(&whole) && !balancing(&discover_quick));
        assert_eq!(discover_quick.nodes.len(), 2);
        assert!(!whole.caches.is_empty() && discover_quick.caches.is_empty());
        let bare = |machine: Topology| Topology { findings: Vec::new(), caches: Vec::new(), ..machine };
        assert_eq!(bare(whole), bare(discover_quick));
    }
}
