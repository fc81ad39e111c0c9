//! Measured I/O of several devices at the same time.

use crate::{IoCell, IoDevice, IoMethod, Provenance};
use serde::{Deserialize, Serialize};

/// Bandwidth of several devices, each alone and all at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct AggregateRecord {
    /// [`AGGREGATE_SCHEMA`](crate::AGGREGATE_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The devices.
    pub devices: Vec<IoDevice>,
    /// The method.
    pub method: IoMethod,
    /// Cells with a group of streams of each device, and of each of these groups alone.
    ///
    /// `device` of a group is the index in `devices`.
    pub cells: Vec<IoCell>,
}

impl AggregateRecord {
    /// Returns the names of the devices for messages.
    pub fn names(&self) -> String {
        self.devices.iter().map(|device| device.name.as_str()).collect::<Vec<&str>>().join(" and ")
    }

    /// Returns the cells in which all devices ran.
    pub fn aggregates(&self) -> impl Iterator<Item = &IoCell> {
        self.cells.iter().filter(|cell| cell.groups.len() == self.devices.len())
    }

    /// Returns the cell of a group of an aggregate alone.
    pub fn alone(&self, aggregate: &IoCell, index: usize) -> Option<&IoCell> {
        self.cells.iter().find(|cell| cell.is_alone(aggregate, index))
    }

    /// Returns the bandwidth of all devices at the same time over the sum of each alone: 1.0 if
    /// they share nothing that limits them.
    pub fn share_of_sum(&self, aggregate: &IoCell) -> Option<f64> {
        let alone = |index| self.alone(aggregate, index)?.bytes_per_s.median();
        let sum: Option<f64> = (0..aggregate.groups.len()).map(alone).sum();
        sum.filter(|sum| *sum > 0.0).and_then(|sum| Some(aggregate.bytes_per_s.median()? / sum))
    }
}
