//! Traffic of a running program with each of its devices.

use serde::{Deserialize, Serialize};

/// Bytes per second that a program exchanges with a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DeviceTraffic {
    /// From the device to memory: read, or received.
    pub read_bytes_per_s: f64,
    /// From memory to the device: written, or sent.
    pub write_bytes_per_s: f64,
    /// Source of the values.
    pub source: TrafficSource,
}

/// Source of the traffic of a program with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrafficSource {
    /// Counted by the kernel for storage, and divided among the program's storage devices.
    Storage,
    /// Counted by the kernel for each TCP socket.
    Sockets,
    /// Bytes that read(2) and write(2) moved beyond storage, an estimate.
    Calls,
}

/// The reason why the network traffic of a program is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnknownTraffic {
    /// The kernel does not list sockets.
    NoSocketList,
    /// The program is in another network namespace, whose sockets are invisible.
    OtherNamespace,
    /// Its open files cannot be read without permission.
    Denied,
    /// Rates need two observations.
    FirstObservation,
}

impl DeviceTraffic {
    /// Returns the bytes per second in both directions.
    pub fn total(&self) -> f64 {
        self.read_bytes_per_s + self.write_bytes_per_s
    }
}
