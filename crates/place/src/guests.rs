//! Changes that move a running guest to its planned CPUs and nodes.

use numaio_machine::control::{Change, LibvirtThread};
use numaio_machine::guests::{GuestThread, ThreadRole};
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_schema::{AppliedChange, GuestPlacement, GuestStatus};
use std::collections::BTreeMap;

/// Share of memory that may be elsewhere: pages of the hypervisor itself.
const TOLERATED: f64 = 0.02;

/// Changes of a running guest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuestChanges {
    /// The changes, with their expected inverses.
    pub changes: Vec<AppliedChange>,
    /// Why memory that is elsewhere cannot be moved; `None` if it can, or if none is elsewhere.
    pub memory_refused: Option<String>,
}

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

/// Returns the changes that move a guest to a placement: threads first, then memory.
///
/// # Errors
/// [`GuestChangeError`].
pub fn guest_changes(
    guest: &GuestStatus,
    placement: &GuestPlacement,
) -> Result<GuestChanges, GuestChangeError> {
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
    let mut changes: Vec<AppliedChange> =
        guest.threads.iter().filter_map(|thread| pin(guest, placement, thread)).collect();
    // A thread that libvirt confines to CPUs may take others only after libvirt's pin.
    changes.sort_by_key(|it| matches!(it.change, Change::ThreadAffinity { .. }));
    let (moves, memory_refused) = memory(guest, placement);
    changes.extend(moves);
    Ok(GuestChanges { changes, memory_refused })
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

/// Returns the change of a thread; `None` if it is on its CPUs, or if libvirt changes it with
/// another one.
fn pin(guest: &GuestStatus, placement: &GuestPlacement, thread: &GuestThread) -> Option<AppliedChange> {
    let wanted = planned_cpus(placement, &thread.role)?;
    let current = thread.allowed.clone()?;
    if wanted == current || thread.start_time == 0 {
        return None;
    }
    let (pid, tid, start_time) = (thread.pid, thread.tid, thread.start_time);
    let change = |cpus: CpuSet| match libvirt_thread(guest, thread) {
        _ if !guest.configuration.libvirt => Some(Change::ThreadAffinity { pid, tid, start_time, cpus }),
        Some(name) => {
            let domain = guest.name.clone();
            Some(Change::LibvirtPin { domain, thread: name, pid, tid, start_time, cpus })
        }
        None if follows_main_thread(guest, thread) => None,
        None => Some(Change::ThreadAffinity { pid, tid, start_time, cpus }),
    };
    Some(AppliedChange { change: change(wanted)?, inverse: change(current)? })
}

/// Returns whether a thread gets its CPUs with the main thread, when libvirt pins the emulator: it
/// has the same now, or is a thread of the kernel.
fn follows_main_thread(guest: &GuestStatus, thread: &GuestThread) -> bool {
    let main = guest.threads.iter().find(|main| main.tid == guest.pid);
    thread.pid != guest.pid || main.is_none_or(|main| main.allowed == thread.allowed)
}

/// Returns libvirt's name of a thread; `None` if it has none.
fn libvirt_thread(guest: &GuestStatus, thread: &GuestThread) -> Option<LibvirtThread> {
    match &thread.role {
        ThreadRole::Vcpu { number } => Some(LibvirtThread::Vcpu { number: *number }),
        ThreadRole::Io { name } => {
            let number = name.strip_prefix("iothread")?.parse().ok()?;
            Some(LibvirtThread::IoThread { number })
        }
        ThreadRole::Emulator if thread.tid == guest.pid => Some(LibvirtThread::Emulator),
        ThreadRole::AllVcpus | ThreadRole::Vhost | ThreadRole::Emulator => None,
    }
}

/// Returns the changes of memory, or why it cannot be moved.
fn memory(guest: &GuestStatus, placement: &GuestPlacement) -> (Vec<AppliedChange>, Option<String>) {
    let Some(on) = &guest.bytes_on else {
        return (Vec::new(), Some("only root and its user can read where it is".to_owned()));
    };
    let nodes: NodeSet = placement.cells.iter().map(|cell| cell.node).collect();
    let all = on.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let away: BTreeMap<NodeId, u64> =
        on.iter().filter(|(node, _)| !nodes.contains(**node)).map(|(node, bytes)| (*node, *bytes)).collect();
    let bytes_away = away.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    if bytes_away as f64 <= TOLERATED * all as f64 {
        return (Vec::new(), None);
    }
    if guest.pinned {
        let why = "it is pinned, since the guest owns a device of the host (VFIO)";
        return (Vec::new(), Some(why.to_owned()));
    }
    if nodes.len() > 1 {
        let why = "the placement has several nodes, and the kernel would mix the guest's nodes";
        return (Vec::new(), Some(why.to_owned()));
    }
    let mut sources: Vec<(u64, NodeId)> = away.into_iter().map(|(node, bytes)| (bytes, node)).collect();
    // Undone in reverse order, everything returns to the node that held most.
    sources.sort_unstable();
    let change = |(_, node): (u64, NodeId)| {
        let (pid, start_time) = (guest.pid, guest.start_time);
        let (from, to) = (NodeSet::one(node), nodes.clone());
        AppliedChange {
            inverse: Change::ProcessNodes { pid, start_time, from: to.clone(), to: from.clone() },
            change: Change::ProcessNodes { pid, start_time, from, to },
        }
    };
    (sources.into_iter().map(change).collect(), None)
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
    let mut check = GuestCheck { threads: 0, all_threads: 0, bytes: None, all_bytes: None };
    for thread in &guest.threads {
        let Some(wanted) = planned_cpus(placement, &thread.role) else { continue };
        check.all_threads += 1;
        check.threads += usize::from(thread.allowed.as_ref().is_some_and(|cpus| cpus.is_subset(&wanted)));
    }
    let nodes: NodeSet = placement.cells.iter().map(|cell| cell.node).collect();
    if let Some(on) = &guest.bytes_on {
        let sum = |wanted: &dyn Fn(NodeId) -> bool| {
            let bytes = on.iter().filter(|(node, _)| wanted(**node)).map(|(_, bytes)| *bytes);
            bytes.fold(0u64, u64::saturating_add)
        };
        check.bytes = Some(sum(&|node| nodes.contains(node)));
        check.all_bytes = Some(sum(&|_| true));
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::guests::parse_command_line;
    use numaio_machine::ids::CpuId;
    use numaio_schema::{PinnedVcpu, PlacedCell};

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
        let io = ThreadRole::Io { name: "iothread1".into() };
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
            memory: None,
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

    fn is_affinity(applied: &AppliedChange) -> bool {
        matches!(applied.change, Change::ThreadAffinity { .. })
    }

    fn pinned(vcpu: u32, list: &str) -> PinnedVcpu {
        PinnedVcpu { vcpu, cpus: cpus(list) }
    }

    #[test]
    fn pins_threads_and_moves_memory_from_each_node() {
        let found = guest_changes(&guest(""), &placement(&[2])).expect("changes");
        let texts: Vec<String> = found.changes.iter().map(|applied| applied.change.to_string()).collect();
        assert_eq!(
            texts,
            [
                "thread 71 of process 70 to CPUs 4",
                "thread 73 of process 70 to CPUs 6",
                "thread 70 of process 70 to CPUs 6",
                "thread 74 of process 70 to CPUs 6",
                "memory of process 70 on nodes 0 to nodes 2",
                "memory of process 70 on nodes 1 to nodes 2",
            ],
            "vCPU 1 is there already"
        );
        assert_eq!(found.changes[0].inverse.to_string(), "thread 71 of process 70 to CPUs 0-7");
        assert_eq!(found.changes[5].inverse.to_string(), "memory of process 70 on nodes 2 to nodes 1");
        assert_eq!(found.memory_refused, None);
    }

    #[test]
    fn pinned_memory_is_refused_with_the_reason() {
        let owns = guest("-device\0vfio-pci,host=0000:3b:02.1");
        let found = guest_changes(&owns, &placement(&[2])).expect("changes");
        assert!(found.memory_refused.is_some_and(|why| why.contains("VFIO")));
        assert!(found.changes.iter().all(|it| !matches!(it.change, Change::ProcessNodes { .. })));
        let several = guest_changes(&guest(""), &placement(&[2, 3])).expect("changes");
        assert!(several.memory_refused.is_some_and(|why| why.contains("several nodes")));
    }

    #[test]
    fn libvirt_pins_the_threads_of_its_guests() {
        let object = "-object\0{\"qom-type\":\"secret\",\"id\":\"masterKey0\",\"file\":\"x\"}";
        let found = guest_changes(&guest(object), &placement(&[1])).expect("changes");
        let threads: Vec<LibvirtThread> = found
            .changes
            .iter()
            .filter_map(|applied| match &applied.change {
                Change::LibvirtPin { domain, thread, .. } if domain == "web" => Some(*thread),
                _ => None,
            })
            .collect();
        let wanted = [
            LibvirtThread::Vcpu { number: 0 },
            LibvirtThread::IoThread { number: 1 },
            LibvirtThread::Emulator,
        ];
        assert_eq!(threads, wanted);
        assert_eq!(
            found.changes.iter().filter(|it| is_affinity(it)).count(),
            0,
            "others follow the emulator"
        );
        let mut apart = guest(object);
        apart.threads.push(thread(ThreadRole::Vhost, 76, "0-3"));
        let found = guest_changes(&apart, &placement(&[1])).expect("changes");
        let texts: Vec<String> =
            found.changes.iter().filter(|it| is_affinity(it)).map(|it| it.change.to_string()).collect();
        assert_eq!(texts, ["thread 76 of process 70 to CPUs 6"]);
        assert!(is_affinity(&found.changes[3]), "after the pins of libvirt");
        apart.threads[3].allowed = Some(cpus("6"));
        let found = guest_changes(&apart, &placement(&[1])).expect("changes");
        assert_eq!(
            found.changes.iter().filter(|it| is_affinity(it)).count(),
            2,
            "the main thread was pinned alone"
        );
    }

    #[test]
    fn rejects_a_placement_of_another_size() {
        let mut one = guest("");
        one.threads.remove(0);
        assert!(matches!(guest_changes(&one, &placement(&[2])), Err(GuestChangeError::OtherSize { .. })));
        one.threads.remove(0);
        assert!(matches!(
            guest_changes(&one, &placement(&[2])),
            Err(GuestChangeError::UnnamedThreads { .. })
        ));
        one.threads.push(thread(ThreadRole::AllVcpus, 75, "0-7"));
        let found = guest_changes(&one, &placement(&[2])).expect("changes");
        assert!(found
            .changes
            .iter()
            .any(|it| it.change.to_string() == "thread 75 of process 70 to CPUs 4-5"));
    }

    #[test]
    fn check_counts_what_is_in_place() {
        let check = check_guest(&guest(""), &placement(&[1]));
        assert_eq!((check.threads, check.all_threads), (1, 5));
        assert_eq!((check.bytes, check.all_bytes), (Some(5 << 20), Some(9 << 20)));
    }
}
