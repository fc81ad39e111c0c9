//! Bandwidth of a running guest by the nodes of its virtual CPUs and its memory.

use crate::Basis;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// The network bandwidth of a guest in each placement of its virtual CPUs and its memory (Bo, 2016,
/// Table 2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestBench {
    /// [`GUEST_BENCH_SCHEMA`](crate::GUEST_BENCH_SCHEMA).
    pub schema: String,
    /// Version of numaio that measured.
    pub numaio: String,
    /// The host.
    pub machine: Identity,
    /// Time of measurement in seconds since 1970.
    pub measured_at: u64,
    /// Name of the guest.
    pub guest: String,
    /// The other host, as the guest names it.
    pub peer: String,
    /// The device of the host that carries the guest's traffic.
    pub device: String,
    /// Node of the host with the shortest path to the device.
    pub local: NodeId,
    /// Node of the host with the worst path.
    pub remote: NodeId,
    /// The criterion of the choice of these nodes.
    pub basis: Basis,
    /// One entry for each placement.
    pub situations: Vec<GuestSituation>,
}

/// A placement of a guest, and its bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestSituation {
    /// Node of all threads of the guest.
    pub vcpus: NodeId,
    /// Node of its memory.
    pub memory: NodeId,
    /// One cell for each direction, message size and number of streams.
    pub cells: Vec<GuestBenchCell>,
    /// Why it was not measured, or why a round failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The bandwidth of one kind of traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GuestBenchCell {
    /// Device write: the guest sends.
    pub direction: Direction,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Number of streams.
    pub streams: u32,
    /// Bytes per second in each round.
    pub bytes_per_s: Vec<f64>,
}

impl GuestSituation {
    /// Adds the bandwidth of a round.
    pub fn add(&mut self, (direction, message_bytes, streams): (Direction, u64, u32), bytes_per_s: f64) {
        let is_same = |cell: &&mut GuestBenchCell| {
            (cell.direction, cell.message_bytes, cell.streams) == (direction, message_bytes, streams)
        };
        match self.cells.iter_mut().find(is_same) {
            Some(cell) => cell.bytes_per_s.push(bytes_per_s),
            None => {
                let bytes_per_s = vec![bytes_per_s];
                self.cells.push(GuestBenchCell { direction, message_bytes, streams, bytes_per_s });
            }
        }
    }
}
