//! Whether tasks ran as planned.

use numaio_machine::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Observations of running tasks, compared with their plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// [`VERIFICATION_SCHEMA`](crate::VERIFICATION_SCHEMA).
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Duration of the observation in seconds.
    pub seconds: f64,
    /// Number of samples.
    pub samples: u32,
    /// One entry for each task, in the order of the plan.
    pub tasks: Vec<TaskObservation>,
    /// Bytes moved by devices during the observation, for any process: devices of the plan first,
    /// then all others that moved data.
    pub devices: Vec<DeviceObservation>,
}

/// Observations of one task and its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TaskObservation {
    /// Bytes of private memory by node, at the maximum of their sum.
    pub bytes_on: BTreeMap<NodeId, u64>,
    /// Bytes of these on planned nodes; `None` if the kernel denied access.
    pub bytes_in_place: Option<u64>,
    /// CPU time in clock ticks.
    pub ticks: u64,
    /// Ticks of these on planned CPUs.
    pub ticks_in_place: u64,
    /// Maximum number of concurrent threads.
    pub threads: u32,
    /// Threads allowed to run outside the planned CPUs, because the program changed their affinity.
    pub threads_unbound: u32,
}

/// Bytes moved by a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceObservation {
    /// The name of the device.
    pub device: String,
    /// Whether the plan places tasks near this device.
    pub planned: bool,
    /// Bytes moved, both directions together.
    pub bytes: u64,
}

impl Verification {
    /// Returns the share of memory on planned nodes; `None` without observed memory.
    pub fn pages_in_place(&self) -> Option<f64> {
        let in_place: Option<u64> = self.tasks.iter().map(|task| task.bytes_in_place).sum();
        share(in_place?, self.tasks.iter().flat_map(|task| task.bytes_on.values()).sum())
    }

    /// Returns the share of CPU time on planned CPUs; `None` without observed CPU time.
    pub fn time_in_place(&self) -> Option<f64> {
        let sum = |field: fn(&TaskObservation) -> u64| self.tasks.iter().map(field).sum();
        share(sum(|task| task.ticks_in_place), sum(|task| task.ticks))
    }

    /// Returns the planned devices' share of all bytes moved; `None` if no device moved any.
    pub fn io_in_place(&self) -> Option<f64> {
        let planned = self.devices.iter().filter(|device| device.planned).map(|device| device.bytes).sum();
        share(planned, self.devices.iter().map(|device| device.bytes).sum())
    }
}

fn share(part: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| part as f64 / total as f64)
}
