//! Changes of machine settings, each with its inverse.

use crate::devices::PciAddress;
use crate::hot_pages::MonitoredProcess;
use crate::ids::{CpuId, NodeId};
use crate::set::{format_nodes, CpuSet, NodeSet};
use crate::sysfs::{Sysfs, SysfsExt};
use crate::units::format_size;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A machine whose settings can be changed, and on which pages of other processes can be moved.
pub trait Control {
    /// Applies one change and returns the inverse change.
    ///
    /// # Errors
    /// [`ControlError`]. [`Change::ProcessPages`] is refused: [`Self::move_pages`] applies it.
    fn apply(&self, change: &Change) -> Result<Change, ControlError>;

    /// Returns the nodes of the present pages within address ranges of a process.
    ///
    /// # Errors
    /// The process ended, or permission is missing; or the pages are too many, or in too many runs.
    fn page_runs(&self, _pid: u32, _ranges: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
        Err(ControlError::Frozen)
    }

    /// Moves pages as far as possible. Pages that cannot be moved stay, and are reported.
    ///
    /// # Errors
    /// Permission is missing, or the kernel rejects all pages. An ended process is reported.
    fn move_pages(&self, _wanted: &PageMove) -> Result<PageMoveReport, ControlError> {
        Err(ControlError::Frozen)
    }
}

/// A change of one machine setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Automatic NUMA balancing (`Documentation/admin-guide/sysctl/kernel.rst`, `numa_balancing`).
    NumaBalancing {
        /// The value of the setting: 0 off, 1 balancing, 2 memory tiering, 3 both.
        mode: u32,
    },
    /// Weight of a node in weighted interleave
    /// (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).
    InterleaveWeight {
        /// The node.
        node: NodeId,
        /// Pages in a row, from 1 to 255.
        weight: u32,
    },
    /// Whether the kernel sets the weights itself, from the firmware's bandwidths (Linux 6.16).
    AutomaticInterleave {
        /// Whether the automatic mode is on.
        enabled: bool,
    },
    /// CPUs that may serve an interrupt (`Documentation/core-api/irq/irq-affinity.rst`).
    IrqAffinity {
        /// Interrupt number.
        irq: u32,
        /// The CPUs; not empty.
        cpus: CpuSet,
    },
    /// Receive packet steering: CPUs that process a queue's packets; an empty set disables it
    /// (`Documentation/networking/scaling.rst`, also for the following settings).
    RpsCpus {
        /// Network interface.
        interface: String,
        /// Receive queue.
        queue: u32,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Receive flow steering: number of flows tracked by a queue; the kernel requires powers of
    /// two.
    RpsFlows {
        /// Network interface.
        interface: String,
        /// Receive queue.
        queue: u32,
        /// Flows; 0 disables it.
        flows: u32,
    },
    /// Transmit packet steering: CPUs that transmit through a queue.
    XpsCpus {
        /// Network interface.
        interface: String,
        /// Transmit queue.
        queue: u32,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Receive side scaling: the receive queue of each entry of an interface's indirection table,
    /// among which the card divides packets by their hash.
    ReceiveTable {
        /// Network interface.
        interface: String,
        /// The queues; not empty.
        queues: Vec<u32>,
    },
    /// Receive flow steering: number of flows tracked by the machine; the kernel requires powers of
    /// two.
    SockFlowEntries {
        /// Flows; 0 disables it.
        entries: u32,
    },
    /// Hardware prefetchers of a CPU ([`PrefetchRegister`](crate::prefetch::PrefetchRegister)).
    Prefetchers {
        /// The CPU.
        cpu: CpuId,
        /// Bits of the disabled prefetchers in the CPU's register; 0 enables all.
        disabled: u64,
    },
    /// CPUs on which a thread may run (sched_setaffinity(2)).
    ThreadAffinity {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// Start time of the thread in clock ticks since boot, because ids are reused.
        start_time: u64,
        /// The CPUs; not empty.
        cpus: CpuSet,
    },
    /// CPUs of a thread of a guest that libvirt owns, set by virsh(1), so that libvirt records
    /// them.
    LibvirtPin {
        /// Name of the domain.
        domain: String,
        /// The thread, as libvirt names it.
        thread: LibvirtThread,
        /// Process id of its hypervisor.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// Start time of the thread in clock ticks since boot, which identifies it.
        start_time: u64,
        /// The CPUs; not empty.
        cpus: CpuSet,
    },
    /// Nodes on which a guest that libvirt confines to nodes may allocate memory, set by virsh(1).
    /// The kernel then moves the guest's pages and the nodes of its memory policies.
    LibvirtNodes {
        /// Name of the domain.
        domain: String,
        /// Process id of its hypervisor.
        pid: u32,
        /// Start time of the process in clock ticks since boot, which identifies it.
        start_time: u64,
        /// The nodes; not empty.
        nodes: NodeSet,
    },
    /// Number of enabled virtual functions (`Documentation/PCI/pci-iov-howto.rst`).
    VirtualFunctions {
        /// The physical function.
        function: PciAddress,
        /// Enabled virtual functions; 0 removes all.
        count: u32,
    },
    /// Nodes of a process's pages (move_pages(2)). Without effect after its end.
    ProcessPages(PageMove),
    /// Monitors of DAMON for the memory of processes, which are the only ones of the machine.
    /// Switching off leaves monitors of other programs alone.
    AccessMonitor(AccessMonitor),
}

/// Monitors of accesses to the memory of processes, one for each
/// (`Documentation/admin-guide/mm/damon/usage.rst`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct AccessMonitor {
    /// The processes, with the monitored addresses.
    pub processes: Vec<MonitoredProcess>,
    /// Time between samples in microseconds.
    pub sample_us: u64,
    /// Time over which samples are counted, in microseconds.
    pub aggregation_us: u64,
    /// Whether they are on.
    pub enabled: bool,
}

/// A thread of a guest, as libvirt names it (virsh(1): vcpupin, emulatorpin, iothreadpin).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "thread", rename_all = "kebab-case")]
pub enum LibvirtThread {
    /// A virtual CPU.
    Vcpu {
        /// Its number.
        number: u32,
    },
    /// All threads of the hypervisor without another role.
    Emulator,
    /// An I/O thread.
    IoThread {
        /// Its number, from 1.
        number: u32,
    },
}

impl fmt::Display for LibvirtThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vcpu { number } => write!(f, "vCPU {number}"),
            Self::Emulator => f.write_str("emulator"),
            Self::IoThread { number } => write!(f, "I/O thread {number}"),
        }
    }
}

/// Pages of a process, and the nodes on which they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PageMove {
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot, because ids are reused.
    pub start_time: u64,
    /// Whether pages that other processes map too are moved, as far as permitted.
    pub shared: bool,
    /// The pages, by ascending address.
    pub runs: Vec<PageRun>,
}

/// Consecutive pages of one process on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PageRun {
    /// Address of the first page.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The node.
    pub node: NodeId,
}

impl PageMove {
    /// Returns the bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.bytes))
    }
}

/// The result of moving pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageMoveReport {
    /// Bytes that were moved.
    pub moved_bytes: u64,
    /// Bytes that stayed, by reason.
    pub left: BTreeMap<PageRefusal, u64>,
    /// Whether the process ended before or during the move.
    pub process_ended: bool,
}

/// The reason why a page was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PageRefusal {
    /// It is in use by a device or another part of the kernel (EBUSY).
    Busy,
    /// The target node has no free memory (ENOMEM).
    NoMemory,
    /// Other processes map it (EACCES).
    Shared,
    /// It was unmapped or swapped out meanwhile (ENOENT, EFAULT).
    Absent,
    /// A signal stopped the move.
    Interrupted,
    /// The kernel returned another error.
    Other,
}

impl fmt::Display for PageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "in use by a device or the kernel",
            Self::NoMemory => "no free memory on the target node",
            Self::Shared => "mapped by other processes",
            Self::Absent => "unmapped or swapped out",
            Self::Interrupted => "interrupted by a signal",
            Self::Other => "rejected by the kernel",
        })
    }
}

impl Change {
    /// Returns whether libvirt makes it, which confines the threads and pages of a guest.
    pub fn is_of_libvirt(&self) -> bool {
        matches!(self, Self::LibvirtPin { .. } | Self::LibvirtNodes { .. })
    }

    /// Returns whether both change the same setting, regardless of the value.
    pub fn is_same_setting(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::InterleaveWeight { node: one, .. }, Self::InterleaveWeight { node: other, .. }) => {
                one == other
            }
            (Self::ReceiveTable { interface: one, .. }, Self::ReceiveTable { interface: other, .. }) => {
                one == other
            }
            (Self::Prefetchers { cpu: one, .. }, Self::Prefetchers { cpu: other, .. }) => one == other,
            (Self::IrqAffinity { irq: one, .. }, Self::IrqAffinity { irq: other, .. }) => one == other,
            (
                Self::ThreadAffinity { tid, start_time, .. } | Self::LibvirtPin { tid, start_time, .. },
                Self::ThreadAffinity { tid: other, start_time: since, .. }
                | Self::LibvirtPin { tid: other, start_time: since, .. },
            ) => (tid, start_time) == (other, since),
            (
                Self::LibvirtNodes { pid, start_time, .. },
                Self::LibvirtNodes { pid: other, start_time: since, .. },
            ) => (pid, start_time) == (other, since),
            (Self::VirtualFunctions { function, .. }, Self::VirtualFunctions { function: other, .. }) => {
                function == other
            }
            (Self::RpsCpus { interface, queue, .. }, Self::RpsCpus { interface: of, queue: other, .. })
            | (Self::RpsFlows { interface, queue, .. }, Self::RpsFlows { interface: of, queue: other, .. })
            | (Self::XpsCpus { interface, queue, .. }, Self::XpsCpus { interface: of, queue: other, .. }) => {
                (interface, queue) == (of, other)
            }
            (Self::ProcessPages(one), Self::ProcessPages(other)) => {
                (one.pid, one.start_time) == (other.pid, other.start_time)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Lists the queues of an indirection table, without repetitions: `0-3,7`.
pub fn queue_list(queues: &[u32]) -> String {
    queues.iter().map(|queue| CpuId(*queue)).collect::<CpuSet>().to_string()
}

/// Returns the identifier of this boot; no setting survives a reboot.
///
/// `None` if the kernel does not provide it (`Documentation/admin-guide/sysctl/kernel.rst`,
/// `random`).
pub fn boot_id(root: &dyn Sysfs) -> Option<String> {
    root.optional("/proc/sys/kernel/random/boot_id").filter(|id| !id.is_empty())
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumaBalancing { mode } => write!(f, "automatic NUMA balancing to {mode}"),
            Self::InterleaveWeight { node, weight } => {
                write!(f, "interleave weight of node {node} to {weight}")
            }
            Self::AutomaticInterleave { enabled: true } => f.write_str("automatic interleave weights on"),
            Self::AutomaticInterleave { enabled: false } => f.write_str("automatic interleave weights off"),
            Self::IrqAffinity { irq, cpus } => write!(f, "interrupt {irq} to CPUs {cpus}"),
            Self::RpsCpus { interface, queue, cpus } if cpus.is_empty() => {
                write!(f, "RPS of {interface} rx-{queue} off")
            }
            Self::RpsCpus { interface, queue, cpus } => {
                write!(f, "RPS of {interface} rx-{queue} to CPUs {cpus}")
            }
            Self::RpsFlows { interface, queue, flows } => {
                write!(f, "RFS of {interface} rx-{queue} to {flows} flows")
            }
            Self::XpsCpus { interface, queue, cpus } if cpus.is_empty() => {
                write!(f, "XPS of {interface} tx-{queue} off")
            }
            Self::XpsCpus { interface, queue, cpus } => {
                write!(f, "XPS of {interface} tx-{queue} to CPUs {cpus}")
            }
            Self::ReceiveTable { interface, queues } => {
                write!(f, "RSS of {interface} to queues {}", queue_list(queues))
            }
            Self::Prefetchers { cpu, disabled: 0 } => write!(f, "hardware prefetchers of CPU {cpu} on"),
            Self::Prefetchers { cpu, disabled } => {
                write!(f, "hardware prefetchers of CPU {cpu} off (bits {disabled:#x})")
            }
            Self::SockFlowEntries { entries } => write!(f, "RFS of the machine to {entries} flows"),
            Self::ThreadAffinity { pid, tid, cpus, .. } => {
                write!(f, "thread {tid} of process {pid} to CPUs {cpus}")
            }
            Self::LibvirtPin { domain, thread, cpus, .. } => {
                write!(f, "{thread} of libvirt domain '{domain}' to CPUs {cpus}")
            }
            Self::LibvirtNodes { domain, nodes, .. } => {
                write!(f, "memory of libvirt domain '{domain}' to {}", format_nodes(nodes))
            }
            Self::VirtualFunctions { function, count } => {
                write!(f, "virtual functions of {function} to {count}")
            }
            Self::ProcessPages(wanted) => {
                let nodes: NodeSet = wanted.runs.iter().map(|run| run.node).collect();
                let size = format_size(wanted.bytes());
                write!(f, "{size} of process {} to {}", wanted.pid, format_nodes(&nodes))
            }
            Self::AccessMonitor(monitor) => {
                let pids: Vec<String> = monitor.processes.iter().map(|it| it.pid.to_string()).collect();
                let state = if monitor.enabled { "on" } else { "off" };
                write!(f, "DAMON monitor of processes {} {state}", pids.join(", "))
            }
        }
    }
}

/// The reason why a change failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// A recorded machine cannot be changed.
    #[error("a recorded machine cannot be changed")]
    Frozen,
    /// A managed interrupt, which only the kernel moves, or an interrupt controller without
    /// affinity.
    #[error("interrupt {irq} cannot be moved: the kernel manages it, or its controller has no affinity")]
    Unmovable {
        /// Interrupt number.
        irq: u32,
    },
    /// The process or thread has ended, and its settings with it.
    #[error("{what}: it has ended")]
    Ended {
        /// The attempted change.
        what: String,
    },
    /// Missing privileges, or read-only settings in a container (EACCES, EPERM, EROFS).
    #[error("{what}: {why}")]
    Denied {
        /// The attempted change.
        what: String,
        /// The kernel's error text.
        why: String,
    },
    /// The kernel rejected the change for another reason.
    #[error("{what}: {why}")]
    Refused {
        /// The attempted change.
        what: String,
        /// The kernel's error text.
        why: String,
    },
}
