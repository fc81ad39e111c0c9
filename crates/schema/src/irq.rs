//! Interrupts of devices: the CPUs that serve them, and the planned CPUs.

use crate::AppliedChange;
use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::steering::NetQueues;
use serde::{Deserialize, Serialize};

/// Interrupts and packet steering of devices of one machine, and a plan if one was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IrqDocument {
    /// [`IRQ_SCHEMA`](crate::IRQ_SCHEMA).
    pub schema: String,
    /// Version of numaio that wrote the document.
    pub numaio: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Whether irqbalance runs; `None` if unknown.
    pub irqbalance: Option<bool>,
    /// Size of the RFS flow table (`rps_sock_flow_entries`); `None` without kernel support.
    pub sock_flow_entries: Option<u32>,
    /// The devices.
    pub devices: Vec<DeviceIrqs>,
    /// The planned changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<IrqPlan>,
}

/// Interrupts and queues of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceIrqs {
    /// The name of the device.
    pub device: String,
    /// The node of the device; `None` if unknown.
    pub node: Option<NodeId>,
    /// The interrupts, by number.
    pub irqs: Vec<QueueIrq>,
    /// The network interfaces with their queues.
    pub interfaces: Vec<NetQueues>,
}

/// An interrupt and the queue it serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct QueueIrq {
    /// The interrupt.
    #[serde(flatten)]
    pub irq: Irq,
    /// The queue, named by the interrupt's handler; `None` for an interrupt of the complete device.
    pub queue: Option<u32>,
    /// Why the interrupt cannot be moved; `None` if it can be.
    pub fixed: Option<String>,
}

/// Changes that move interrupts and packets to the right CPUs, with reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IrqPlan {
    /// The changes with their inverses; empty if nothing needs to change.
    pub changes: Vec<AppliedChange>,
    /// The CPUs that get interrupts, one per core.
    pub cpus: CpuSet,
    /// The reasons, as text.
    pub reasons: Vec<String>,
    /// Rejected alternatives, with reasons.
    pub rejected: Vec<String>,
}
