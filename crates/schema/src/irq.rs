//! Which CPUs serve devices, and which should.

use crate::{AppliedChange, DocumentError};
use numaio_machine::devices::Irq;
use numaio_machine::ids::NodeId;
use numaio_machine::set::CpuSet;
use numaio_machine::steering::NetQueues;
use serde::{Deserialize, Serialize};

/// Version of [`IrqDocument`].
pub const IRQ_SCHEMA: &str = "numaio/irq/1";

/// Interrupts and steering of devices of one machine, now and, if that was asked for, as planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IrqDocument {
    /// [`IRQ_SCHEMA`].
    pub schema: String,
    /// Version of numaio that looked.
    pub numaio: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Whether irqbalance runs; none if that is not to be seen.
    pub irqbalance: Option<bool>,
    /// Flows of RFS that the machine remembers; none for a kernel without it.
    pub sock_flow_entries: Option<u32>,
    /// The devices.
    pub devices: Vec<DeviceIrqs>,
    /// What should change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<IrqPlan>,
}

/// What serves one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceIrqs {
    /// Its name.
    pub device: String,
    /// Its node; none if unknown.
    pub node: Option<NodeId>,
    /// Its interrupts, by number.
    pub irqs: Vec<QueueIrq>,
    /// Its network interfaces with their queues.
    pub interfaces: Vec<NetQueues>,
}

/// An interrupt and what it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueIrq {
    /// The interrupt.
    #[serde(flatten)]
    pub irq: Irq,
    /// The queue it serves, by its name; none if it serves the device as a whole.
    pub queue: Option<u32>,
    /// Why it cannot be moved; none if it can.
    pub fixed: Option<String>,
}

/// Changes that bring interrupts and packets to the right CPUs, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IrqPlan {
    /// What is to change, each with what undoes it; empty if all is as it should be.
    pub changes: Vec<AppliedChange>,
    /// CPUs that get interrupts, one of each core.
    pub cpus: CpuSet,
    /// Why so, in words.
    pub reasons: Vec<String>,
    /// What was not chosen, and why.
    pub rejected: Vec<String>,
}

impl IrqDocument {
    /// Reads such a document.
    ///
    /// # Errors
    /// If the text is none.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, IRQ_SCHEMA)
    }
}
