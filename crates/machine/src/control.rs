//! To change a machine: one change at a time, each with its inverse.

use crate::ids::NodeId;
use crate::set::CpuSet;
use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine that can be changed.
pub trait Control {
    /// Applies one change and gives back the change that undoes it.
    fn apply(&self, change: &Change) -> Result<Change, ControlError>;
}

/// One change of a machine's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether the kernel sets these weights by itself, from firmware's bandwidths (Linux 6.16).
    AutomaticInterleave {
        /// Whether it does.
        on: bool,
    },
    /// CPUs that an interrupt may go to (`Documentation/core-api/irq/irq-affinity.rst`).
    IrqAffinity {
        /// Its number.
        irq: u32,
        /// The CPUs; not empty.
        cpus: CpuSet,
    },
    /// Receive packet steering: CPUs that process what a queue received; none of them switches it off
    /// (`Documentation/networking/scaling.rst`, here as below).
    RpsCpus {
        /// Network interface.
        interface: String,
        /// Receive queue.
        queue: u32,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Receive flow steering: flows that a queue remembers; the kernel takes powers of two.
    RpsFlows {
        /// Network interface.
        interface: String,
        /// Receive queue.
        queue: u32,
        /// Flows; 0 switches it off.
        flows: u32,
    },
    /// Transmit packet steering: CPUs that send through a queue.
    XpsCpus {
        /// Network interface.
        interface: String,
        /// Transmit queue.
        queue: u32,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Receive flow steering: flows that the whole machine remembers; the kernel takes powers of two.
    SockFlowEntries {
        /// Flows; 0 switches it off.
        entries: u32,
    },
}

impl Change {
    /// Whether both set the same setting, to whatever value.
    pub fn is_same_setting(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::InterleaveWeight { node: one, .. }, Self::InterleaveWeight { node: other, .. }) => {
                one == other
            }
            (Self::IrqAffinity { irq: one, .. }, Self::IrqAffinity { irq: other, .. }) => one == other,
            (Self::RpsCpus { interface, queue, .. }, Self::RpsCpus { interface: of, queue: other, .. })
            | (Self::RpsFlows { interface, queue, .. }, Self::RpsFlows { interface: of, queue: other, .. })
            | (Self::XpsCpus { interface, queue, .. }, Self::XpsCpus { interface: of, queue: other, .. }) => {
                (interface, queue) == (of, other)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Which start of the kernel this is (`Documentation/admin-guide/sysctl/kernel.rst`, `random`): no change
/// that is made here outlives it. None where the kernel does not tell.
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
            Self::AutomaticInterleave { on: true } => f.write_str("automatic interleave weights on"),
            Self::AutomaticInterleave { on: false } => f.write_str("automatic interleave weights off"),
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
            Self::SockFlowEntries { entries } => write!(f, "RFS of the machine to {entries} flows"),
        }
    }
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// A recorded machine cannot be changed.
    #[error("a recorded machine cannot be changed")]
    Frozen,
    /// The kernel places this interrupt itself, as its driver asked for, or its controller moves none: no one else can.
    #[error(
        "interrupt {irq} cannot be moved: its driver leaves its place to the kernel (a managed interrupt), or its controller moves none"
    )]
    Unmovable {
        /// Its number.
        irq: u32,
    },
    /// For want of rights, or in a container that sees settings for reading only (EACCES, EPERM, EROFS).
    #[error("{what}: {why}")]
    Denied {
        /// What was asked.
        what: String,
        /// The kernel's words.
        why: String,
    },
    /// The kernel refused for another reason.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The kernel's words.
        why: String,
    },
}
