//! Changes that move a running guest to its planned CPUs and nodes.

use crate::relocation::page_change;
use numaio_machine::control::{Change, Control, LibvirtThread, PageMove};
use numaio_machine::guests::{GuestThread, ThreadRole};
use numaio_machine::programs::{read_details, read_movable_ranges};
use numaio_machine::set::{format_nodes, CpuSet, NodeSet};
use numaio_machine::sysfs::Sysfs;
use numaio_schema::{AppliedChange, GuestPlacement, GuestStatus};
use std::ops::Range;

/// Share of memory that may be elsewhere: pages of the hypervisor itself.
const TOLERATED: f64 = 0.02;

/// Error of planning the changes of a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestChangeError {
    /// The placement is of a guest with another number of virtual CPUs.
    #[error("the placement has {planned} vCPUs, and guest '{name}' has {running}")]
    OtherSize {
        /// Name of the guest.
        name: String,
        /// Planned virtual CPUs.
        planned: usize,
        /// Running ones.
        running: usize,
    },
    /// The threads of virtual CPUs have no names, and no monitor reports them.
    #[error("the vCPU threads of guest '{name}' cannot be identified")]
    UnnamedThreads {
        /// Name of the guest.
        name: String,
    },
}

/// Returns the changes that move the threads of a guest to a placement.
///
/// # Errors
/// [`GuestChangeError`].
pub fn guest_thread_changes(
    guest: &GuestStatus,
    placement: &GuestPlacement,
) -> Result<Vec<AppliedChange>, GuestChangeError> {
    let name = || guest.name.clone();
    let mut running: Vec<&GuestThread> =
        guest.threads.iter().filter(|thread| thread.role.is_vcpu()).collect();
    running.sort_by_key(|thread| &thread.role);
    let planned = placement.vcpus();
    match running.as_slice() {
        [] => return Err(GuestChangeError::UnnamedThreads { name: name() }),
        [only] if only.role == ThreadRole::AllVcpus => {}
        running if running.len() != planned.len() => {
            let (planned, running) = (planned.len(), running.len());
            return Err(GuestChangeError::OtherSize { name: name(), planned, running });
        }
        _ => {}
    }
    let (named, others): (Vec<&GuestThread>, Vec<&GuestThread>) =
        guest.threads.iter().partition(|thread| libvirt_thread(guest, thread).is_some());
    // A thread that libvirt confines to CPUs may take others only after libvirt's pin.
    let mut changes: Vec<AppliedChange> =
        named.into_iter().filter_map(|thread| pin(guest, placement, thread, false)).collect();
    // libvirt's pin of the emulator may move its other threads, each from its own CPUs.
    let is_confined = changes
        .iter()
        .any(|applied| matches!(applied.change, Change::LibvirtPin { thread: LibvirtThread::Emulator, .. }));
    changes.extend(others.into_iter().filter_map(|thread| pin(guest, placement, thread, is_confined)));
    Ok(changes)
}

/// Returns the CPUs of a thread in a placement.
fn planned_cpus(placement: &GuestPlacement, role: &ThreadRole) -> Option<CpuSet> {
    let vcpus = placement.vcpus();
    match role {
        ThreadRole::Vcpu { number } => {
            vcpus.iter().find(|pinned| pinned.vcpu == *number).map(|pinned| pinned.cpus.clone())
        }
        ThreadRole::AllVcpus => Some(vcpus.iter().fold(CpuSet::new(), |all, pinned| all.union(&pinned.cpus))),
        ThreadRole::Io { .. } | ThreadRole::Vhost | ThreadRole::Emulator => {
            Some(placement.service_cpus.clone())
        }
    }
    .filter(|cpus| !cpus.is_empty())
}

/// Returns the change of a thread; `None` if it is on its CPUs, unless another change moves it.
fn pin(
    guest: &GuestStatus,
    placement: &GuestPlacement,
    thread: &GuestThread,
    is_moved: bool,
) -> Option<AppliedChange> {
    let wanted = planned_cpus(placement, &thread.role)?;
    let current = thread.allowed.clone()?;
    if thread.start_time == 0 || (wanted == current && !is_moved) {
        return None;
    }
    let (pid, tid, start_time) = (thread.pid, thread.tid, thread.start_time);
    let at = |cpus: CpuSet| match libvirt_thread(guest, thread) {
        Some(thread) => Change::LibvirtPin { domain: guest.name.clone(), thread, pid, tid, start_time, cpus },
        None => Change::ThreadAffinity { pid, tid, start_time, cpus },
    };
    Some(AppliedChange { change: at(wanted), inverse: at(current) })
}

/// Returns libvirt's name of a thread; `None` if it has none.
fn libvirt_thread(guest: &GuestStatus, thread: &GuestThread) -> Option<LibvirtThread> {
    match &thread.role {
        _ if !guest.configuration.libvirt => None,
        ThreadRole::Vcpu { number } => Some(LibvirtThread::Vcpu { number: *number }),
        ThreadRole::Io { io_thread } => {
            let number = io_thread.strip_prefix("iothread")?.parse().ok()?;
            Some(LibvirtThread::IoThread { number })
        }
        ThreadRole::Emulator if thread.tid == guest.pid => Some(LibvirtThread::Emulator),
        ThreadRole::AllVcpus | ThreadRole::Vhost | ThreadRole::Emulator => None,
    }
}

/// Returns the changes that move the memory of a guest, and of its hypervisor, to the node of a
/// placement; none if the memory is there.
///
/// # Errors
/// The reason why memory that is elsewhere cannot be moved.
pub fn guest_memory_changes<M: Sysfs + Control>(
    machine: &M,
    guest: &GuestStatus,
    placement: &GuestPlacement,
) -> Result<Vec<AppliedChange>, String> {
    let Some((planned, all)) = bytes_in_place(guest, placement) else {
        return Err("only root and its user can read where it is".to_owned());
    };
    if all.saturating_sub(planned) as f64 <= TOLERATED * all as f64 {
        return Ok(Vec::new());
    }
    if guest.pinned {
        return Err("it is pinned, since the guest owns a device of the host (VFIO)".to_owned());
    }
    let [cell] = placement.cells.as_slice() else {
        return Err("the placement has several nodes, and running guests are moved to one".to_owned());
    };
    let mut changes = Vec::new();
    let (pid, start_time, node) = (guest.pid, guest.start_time, cell.node);
    let allowed = read_details(machine, pid).ok().and_then(|details| details.status.nodes_allowed);
    if let Some(allowed) = allowed.filter(|allowed| !allowed.contains(node)) {
        // Of several nodes, the kernel would merge the policies, which cannot be undone.
        if !guest.configuration.libvirt || allowed.len() > 1 {
            return Err(format!("its control group allows memory only on {}", format_nodes(&allowed)));
        }
        let at = |nodes| Change::LibvirtNodes { domain: guest.name.clone(), pid, start_time, nodes };
        changes.push(AppliedChange { change: at(NodeSet::one(node)), inverse: at(allowed) });
    }
    let regions = guest.memory.iter().flat_map(|memory| &memory.regions);
    let regions: Vec<Range<u64>> =
        regions.map(|region| region.address..region.address.saturating_add(region.bytes)).collect();
    // Locked memory, and memory that the hypervisor bound to nodes, can be moved as well.
    let mut ranges = read_movable_ranges(machine, pid, false, true).unwrap_or_default();
    ranges.retain(|range| regions.iter().all(|region| region.start != range.start));
    ranges.extend(regions);
    ranges.sort_by_key(|range| range.start);
    let runs = machine.page_runs(pid, &ranges).map_err(|error| error.to_string())?;
    // vhost-user back ends map the memory of a guest, too.
    changes.extend(page_change(PageMove { pid, start_time, shared: true, runs }, node));
    Ok(changes)
}

/// Returns the bytes of a guest on the nodes of its placement, and all its bytes; `None` if
/// unknown.
fn bytes_in_place(guest: &GuestStatus, placement: &GuestPlacement) -> Option<(u64, u64)> {
    let nodes: NodeSet = placement.cells.iter().map(|cell| cell.node).collect();
    let on = guest.bytes_on.as_ref()?;
    let planned = on.iter().filter(|(node, _)| nodes.contains(**node)).map(|(_, bytes)| *bytes);
    Some((planned.fold(0, u64::saturating_add), on.values().copied().fold(0, u64::saturating_add)))
}

/// How much of a guest is where its placement puts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestCheck {
    /// Threads on their planned CPUs.
    pub threads: usize,
    /// Threads of the guest that a placement covers.
    pub all_threads: usize,
    /// Bytes on planned nodes; `None` if unknown.
    pub bytes: Option<u64>,
    /// Bytes of the guest; `None` if unknown.
    pub all_bytes: Option<u64>,
}

/// Compares a running guest with its placement.
pub fn check_guest(guest: &GuestStatus, placement: &GuestPlacement) -> GuestCheck {
    let (bytes, all_bytes) = bytes_in_place(guest, placement).unzip();
    let mut check = GuestCheck { threads: 0, all_threads: 0, bytes, all_bytes };
    for thread in &guest.threads {
        let Some(wanted) = planned_cpus(placement, &thread.role) else { continue };
        check.all_threads += 1;
        check.threads += usize::from(thread.allowed.as_ref().is_some_and(|cpus| cpus.is_subset(&wanted)));
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::control::{ControlError, PageRun};
    use numaio_machine::guests::{parse_command_line, GuestMemory, RamRegion};
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::sysfs::ReadError;
    use numaio_machine::tree::Tree;
    use numaio_schema::{PinnedVcpu, PlacedCell};
    use std::collections::BTreeMap;

    /// A host whose process 70 has a heap of two pages, and 8 MiB of memory that a file holds.
    struct Host(Tree);

    const HEAP: u64 = 0x5500_0000_0000;
    const RAM: u64 = 0x7f00_0000_0000;

    impl Host {
        /// The process may allocate memory on these nodes.
        fn new(nodes: &str) -> Self {
            let mut tree = Tree::new();
            tree.file("/proc/70/status", format!("Name: qemu\nMems_allowed_list:\t{nodes}\n"));
            let maps = format!(
                "{HEAP:x}-{:x} rw-p 00000000 00:00 0 [heap]\n\
                 {RAM:x}-{:x} rw-s 00000000 00:01 5 /memfd:memory-backend-memfd (deleted)\n",
                HEAP + 8192,
                RAM + (8 << 20)
            );
            tree.file("/proc/70/maps", maps);
            let numa_maps = format!(
                "{HEAP:x} bind:0 heap anon=2 dirty=2 N0=2 kernelpagesize_kB=4\n\
                 {RAM:x} default file=/memfd:memory-backend-memfd dirty=2 N0=1 N1=1 kernelpagesize_kB=4\n"
            );
            tree.file("/proc/70/numa_maps", numa_maps);
            Self(tree)
        }
    }

    impl Sysfs for Host {
        fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
            self.0.read(path)
        }
        fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
            self.0.list(path)
        }
        fn resolve(&self, path: &str) -> Result<String, ReadError> {
            self.0.resolve(path)
        }
    }

    impl Control for Host {
        fn apply(&self, _: &Change) -> Result<Change, ControlError> {
            Err(ControlError::Frozen)
        }
        /// The first page of each range is on node 0, and the rest on nodes 1 and 2.
        fn page_runs(&self, _: u32, ranges: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
            let runs = ranges.iter().flat_map(|range| {
                [(0, 0), (1, 1), (2, 2)].map(|(page, node)| PageRun {
                    start: range.start + page * 4096,
                    bytes: 4096,
                    node: NodeId(node),
                })
            });
            Ok(runs.filter(|run| ranges.iter().any(|range| range.contains(&run.start))).collect())
        }
    }

    fn run(start: u64, node: u32) -> PageRun {
        PageRun { start, bytes: 4096, node: NodeId(node) }
    }

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).expect("a list")
    }

    fn thread(role: ThreadRole, tid: u32, allowed: &str) -> GuestThread {
        let (cpu, allowed) = (CpuId(0), Some(cpus(allowed)));
        GuestThread { role, pid: 70, tid, start_time: 9, name: String::new(), cpu, allowed }
    }

    /// Two virtual CPUs and an I/O thread, with memory on nodes 0 and 1.
    fn guest(arguments: &str) -> GuestStatus {
        let line = format!("qemu-system-x86_64\0-name\0guest=web\0{arguments}");
        let configuration = parse_command_line(line.as_bytes(), None).expect("a guest");
        let io = ThreadRole::Io { io_thread: "iothread1".into() };
        GuestStatus {
            pid: 70,
            start_time: 9,
            name: "web".into(),
            pinned: configuration.owns_device(),
            configuration,
            threads: vec![
                thread(ThreadRole::Vcpu { number: 0 }, 71, "0-7"),
                thread(ThreadRole::Vcpu { number: 1 }, 72, "5"),
                thread(io, 73, "0-7"),
                thread(ThreadRole::Emulator, 70, "0-7"),
                thread(ThreadRole::Emulator, 74, "0-7"),
            ],
            vcpus_on: BTreeMap::new(),
            memory: Some(GuestMemory {
                regions: vec![RamRegion { address: RAM, bytes: 8 << 20, ..RamRegion::default() }],
                ..GuestMemory::default()
            }),
            bytes_on: Some([(NodeId(0), 3 << 20), (NodeId(1), 5 << 20), (NodeId(2), 1 << 20)].into()),
            devices: Vec::new(),
            findings: Vec::new(),
        }
    }

    fn placement(nodes: &[u32]) -> GuestPlacement {
        let cell = |(index, node): (usize, &u32)| PlacedCell {
            node: NodeId(*node),
            vcpus: match nodes.len() {
                1 => vec![pinned(0, "4"), pinned(1, "5")],
                _ => vec![pinned(index as u32, if index == 0 { "4" } else { "5" })],
            },
            memory_bytes: 9 << 20,
        };
        GuestPlacement {
            name: "web".into(),
            cells: nodes.iter().enumerate().map(cell).collect(),
            service_cpus: cpus("6"),
            shares_cpus: false,
            demands: Vec::new(),
            function: None,
        }
    }

    fn pinned(vcpu: u32, list: &str) -> PinnedVcpu {
        PinnedVcpu { vcpu, cpus: cpus(list) }
    }

    fn texts(changes: &[AppliedChange]) -> Vec<String> {
        changes.iter().map(|applied| applied.change.to_string()).collect()
    }

    #[test]
    fn pins_threads_that_are_elsewhere() {
        let found = guest_thread_changes(&guest(""), &placement(&[2])).expect("changes");
        let expected = [
            "thread 71 of process 70 to CPUs 4",
            "thread 73 of process 70 to CPUs 6",
            "thread 70 of process 70 to CPUs 6",
            "thread 74 of process 70 to CPUs 6",
        ];
        assert_eq!(texts(&found), expected, "vCPU 1 is there already");
        assert_eq!(found[0].inverse.to_string(), "thread 71 of process 70 to CPUs 0-7");
    }

    #[test]
    fn moves_pages_of_guest_and_hypervisor_and_returns_each_to_its_node() {
        let found = guest_memory_changes(&Host::new("0-3"), &guest(""), &placement(&[2])).expect("changes");
        let [AppliedChange { change, inverse: Change::ProcessPages(inverse) }] = found.as_slice() else {
            panic!("{found:?}")
        };
        let before = [run(HEAP, 0), run(HEAP + 4096, 1), run(RAM, 0), run(RAM + 4096, 1)];
        assert_eq!((inverse.pid, inverse.start_time, inverse.shared), (70, 9, true));
        assert_eq!(inverse.runs, before);
        let runs = before.map(|run| PageRun { node: NodeId(2), ..run }).into();
        assert_eq!(*change, Change::ProcessPages(PageMove { runs, ..*inverse }));
        let mut there = guest("");
        there.bytes_on = Some([(NodeId(1), 1 << 20), (NodeId(2), 99 << 20)].into());
        assert_eq!(guest_memory_changes(&Host::new("0-3"), &there, &placement(&[2])), Ok(Vec::new()));
    }

    #[test]
    fn memory_that_cannot_be_moved_has_a_reason() {
        let refused = |guest: &GuestStatus, nodes: &str, placed: &[u32], why: &str| {
            let error = guest_memory_changes(&Host::new(nodes), guest, &placement(placed)).expect_err(why);
            assert!(error.contains(why), "{error}");
        };
        refused(&guest("-device\0vfio-pci,host=0000:3b:02.1"), "0-3", &[2], "VFIO");
        refused(&guest(""), "0-3", &[2, 3], "several nodes");
        refused(&guest(""), "0", &[2], "only on node 0");
        refused(&guest(LIBVIRT), "0-1", &[2], "only on nodes 0-1");
        refused(&GuestStatus { bytes_on: None, ..guest("") }, "0-3", &[2], "only root");
    }

    /// An argument by which guests of libvirt are recognized.
    const LIBVIRT: &str = "-object\0{\"qom-type\":\"secret\",\"id\":\"masterKey0\",\"file\":\"x\"}";

    #[test]
    fn libvirt_admits_a_guest_to_its_node_before_pages_move() {
        let found = guest_memory_changes(&Host::new("0"), &guest(LIBVIRT), &placement(&[2]));
        let found = found.expect("changes");
        assert_eq!(texts(&found)[0], "memory of libvirt domain 'web' to node 2");
        assert_eq!(found[0].inverse.to_string(), "memory of libvirt domain 'web' to node 0");
        assert!(matches!(found[1].change, Change::ProcessPages(_)) && found.len() == 2, "{found:?}");
    }

    #[test]
    fn libvirt_pins_the_threads_of_its_guests() {
        let mut apart = guest(LIBVIRT);
        apart.threads.push(thread(ThreadRole::Vhost, 76, "6"));
        let found = guest_thread_changes(&apart, &placement(&[1])).expect("changes");
        let expected = [
            "vCPU 0 of libvirt domain 'web' to CPUs 4",
            "I/O thread 1 of libvirt domain 'web' to CPUs 6",
            "emulator of libvirt domain 'web' to CPUs 6",
            "thread 74 of process 70 to CPUs 6",
            "thread 76 of process 70 to CPUs 6",
        ];
        assert_eq!(texts(&found), expected, "thread 76 may leave its CPUs with the emulator");
        apart.threads[3].allowed = Some(cpus("6"));
        let found = guest_thread_changes(&apart, &placement(&[1])).expect("changes");
        assert_eq!(texts(&found)[2..], ["thread 74 of process 70 to CPUs 6"], "the emulator stays");
    }

    #[test]
    fn rejects_a_placement_of_another_size() {
        let mut one = guest("");
        one.threads.remove(0);
        assert!(matches!(
            guest_thread_changes(&one, &placement(&[2])),
            Err(GuestChangeError::OtherSize { .. })
        ));
        one.threads.remove(0);
        assert!(matches!(
            guest_thread_changes(&one, &placement(&[2])),
            Err(GuestChangeError::UnnamedThreads { .. })
        ));
        one.threads.push(thread(ThreadRole::AllVcpus, 75, "0-7"));
        let found = guest_thread_changes(&one, &placement(&[2])).expect("changes");
        assert!(texts(&found).contains(&"thread 75 of process 70 to CPUs 4-5".to_owned()), "{found:?}");
    }

    #[test]
    fn check_counts_what_is_in_place() {
        let check = check_guest(&guest(""), &placement(&[1]));
        assert_eq!((check.threads, check.all_threads), (1, 5));
        assert_eq!((check.bytes, check.all_bytes), (Some(5 << 20), Some(9 << 20)));
    }
}
