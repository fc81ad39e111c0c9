//! Time of reads of a device's register by node: memory-mapped I/O.

use crate::{IoDevice, Provenance, Reading, Rounds, Summary};
use numaio_machine::devices::RegisterChoice;
use numaio_machine::ids::{CpuId, NodeId};
use serde::{Deserialize, Serialize};

/// Round trips of reads of a device's register from each node (Moreaud and Goglin, 2007, Table 1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioRecord {
    /// [`MMIO_SCHEMA`](crate::MMIO_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The device, with the PCI function that was read.
    pub device: IoDevice,
    /// Number of the base address register.
    pub bar: u8,
    /// Offset of the register in its region in bytes.
    pub offset: u64,
    /// Reason for this register.
    pub choice: RegisterChoice,
    /// The method.
    pub method: MmioMethod,
    /// One cell for each node whose CPU reads.
    pub cells: Vec<MmioCell>,
}

/// The method of a measurement of reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioMethod {
    /// Number of reads of a visit.
    pub reads: u32,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Time of a read from one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MmioCell {
    /// Node of the CPU.
    pub cpu_node: NodeId,
    /// The CPU.
    pub cpu: CpuId,
    /// Time of a read in nanoseconds, without the time of a reading of the clock.
    pub ns: Reading,
    /// 99th percentile of a visit in nanoseconds, over the visits.
    pub p99_ns: Option<Summary>,
    /// Shortest in nanoseconds.
    pub min_ns: Option<f64>,
}

impl MmioRecord {
    /// Returns the median of a cell over that of the device's node; `None` if one is missing.
    pub fn factor(&self, cell: &MmioCell) -> Option<f64> {
        let local = self.cells.iter().find(|local| Some(local.cpu_node) == self.device.node)?;
        Some(cell.ns.median()? / local.ns.median()?)
    }
}
