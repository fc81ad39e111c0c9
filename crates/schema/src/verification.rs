//! Whether tasks ran where their plan says.

use crate::DocumentError;
use numaio_machine::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`Verification`].
pub const VERIFICATION_SCHEMA: &str = "numaio/verification/1";

/// What was seen of running tasks, beside their plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// [`VERIFICATION_SCHEMA`].
    pub schema: String,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Seconds over which it was watched.
    pub seconds: f64,
    /// How often it was looked at.
    #[serde(rename = "looks")]
    pub samples: u32,
    /// One for each task, in the order of the plan.
    pub tasks: Vec<TaskObservation>,
    /// What devices moved meanwhile, whoever asked them to: those of the plan, then all others that moved something.
    pub devices: Vec<DeviceObservation>,
}

/// What was seen of one task and its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskObservation {
    /// Bytes of its own memory by node, when it had most.
    pub bytes_on: BTreeMap<NodeId, u64>,
    /// Of these, bytes on the plan's nodes; none if the kernel did not let us see.
    pub bytes_in_place: Option<u64>,
    /// CPU time seen, in clock ticks.
    pub ticks: u64,
    /// Of these, ticks of threads that were on the plan's CPUs.
    pub ticks_in_place: u64,
    /// Most threads at once.
    pub threads: u32,
    /// Threads that may run outside of the plan's CPUs: the program has bound them itself.
    pub threads_unbound: u32,
}

/// What a device moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceObservation {
    /// Its name.
    pub device: String,
    /// Whether the plan is near it.
    pub of_plan: bool,
    /// Bytes moved in both directions.
    pub bytes: u64,
}

impl Verification {
    /// Reads a verification.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, VERIFICATION_SCHEMA)
    }

    /// Share of all memory that lay where the plan says; none if none was seen.
    pub fn pages_in_place(&self) -> Option<f64> {
        let in_place: Option<u64> = self.tasks.iter().map(|task| task.bytes_in_place).sum();
        share(in_place?, self.tasks.iter().flat_map(|task| task.bytes_on.values()).sum())
    }

    /// Share of all CPU time that was used where the plan says; none if none was seen.
    pub fn time_in_place(&self) -> Option<f64> {
        let sum = |of: fn(&TaskObservation) -> u64| self.tasks.iter().map(of).sum();
        share(sum(|task| task.ticks_in_place), sum(|task| task.ticks))
    }

    /// Share of all bytes that devices moved meanwhile that those of the plan moved; none if none moved any.
    pub fn io_in_place(&self) -> Option<f64> {
        let of_plan = self.devices.iter().filter(|device| device.of_plan).map(|device| device.bytes).sum();
        share(of_plan, self.devices.iter().map(|device| device.bytes).sum())
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
