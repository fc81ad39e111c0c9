//! Latency of a network by node: messages that a peer returns.

use crate::{IoDevice, IoEngine, IoRemoteEnd, Provenance, Reading, Rounds, Summary};
use numaio_machine::ids::NodeId;
use numaio_machine::workload::Rail;
use serde::{Deserialize, Serialize};

/// Latency of messages by size and by node of both ends (Moreaud and Goglin, 2007).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingRecord {
    /// [`PING_SCHEMA`](crate::PING_SCHEMA).
    pub schema: String,
    /// The origin of the measurements.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The device; with several rails that of the first.
    pub device: IoDevice,
    /// The device at the other end, as the peer reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IoDevice>,
    /// Rails over which messages are striped; empty for the path of the session alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<PingRail>,
    /// The method.
    pub method: PingMethod,
    /// One cell for each placement of both ends, message size and striping.
    pub cells: Vec<PingCell>,
}

/// A rail and its local device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingRail {
    /// Addresses of both ends.
    #[serde(flatten)]
    pub rail: Rail,
    /// The local device.
    pub device: IoDevice,
}

/// The method of a ping-pong measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingMethod {
    /// The engine: built-in TCP or perftest.
    pub engine: IoEngine,
    /// Version of its program.
    pub version: String,
    /// Stopping criteria and progress.
    #[serde(flatten)]
    pub rounds: Rounds,
}

/// Latency of messages of one size in one placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PingCell {
    /// Node of the local CPUs.
    pub cpu_node: NodeId,
    /// Node of the local buffer.
    pub memory_node: NodeId,
    /// The remote end.
    pub remote: IoRemoteEnd,
    /// Size of a message in bytes.
    pub message_bytes: u64,
    /// The RDMA operation; `None` for TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How messages are divided among the rails; `None` without rails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub striping: Option<Striping>,
    /// Bytes of a message on each rail; empty without rails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u64>,
    /// Half of a round trip in nanoseconds, as NetPIPE and perftest report it; of an RDMA read its
    /// duration.
    pub latency_ns: Reading,
    /// 99th percentile of a visit in nanoseconds, over the visits.
    pub p99_ns: Option<Summary>,
    /// Shortest in nanoseconds.
    pub min_ns: Option<f64>,
}

/// Division of messages among rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// All of a message on the rail of this index.
    Single(usize),
    /// Equal parts.
    Even,
    /// Parts proportional to the bandwidth of each rail alone, measured with the same placement and
    /// size.
    Measured,
}

impl Striping {
    /// Divides a message among rails of these bandwidths, in any unit; the parts add up to `bytes`.
    ///
    /// Without a bandwidth above 0, [`Striping::Measured`] divides evenly.
    pub fn parts(self, bytes: u64, bandwidths: &[f64]) -> Vec<u64> {
        let rails = bandwidths.len();
        let shares: Vec<f64> = match self {
            Self::Single(rail) => (0..rails).map(|index| f64::from(u8::from(index == rail))).collect(),
            Self::Measured if bandwidths.iter().sum::<f64>() > 0.0 => bandwidths.to_vec(),
            Self::Even | Self::Measured => vec![1.0; rails],
        };
        let sum: f64 = shares.iter().sum();
        // Rounds the cumulative sums, so that the parts add up.
        let mut before = 0.0;
        let mut end = 0;
        let part = |share: &f64| {
            before += share;
            let next = ((before / sum * bytes as f64).round() as u64).clamp(end, bytes);
            let part = next - end;
            end = next;
            part
        };
        shares.iter().map(part).collect()
    }
}

impl PingCell {
    /// Returns the bytes per second of one message at a time: its size over its latency, as in
    /// figure 3 of Moreaud and Goglin.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.message_bytes as f64 * 1e9 / self.latency_ns.median()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_each_striping_add_up() {
        let rates = [3.0, 1.0];
        assert_eq!(Striping::Single(1).parts(10, &rates), [0, 10]);
        assert_eq!(Striping::Even.parts(11, &rates), [6, 5]);
        assert_eq!(Striping::Measured.parts(8, &rates), [6, 2]);
        assert_eq!(Striping::Measured.parts(1, &rates), [1, 0]);
        assert_eq!(Striping::Measured.parts(9, &[0.0, 0.0, 0.0]), [3, 3, 3]);
        for bytes in [1, 7, 1 << 20, 8 << 20] {
            for rates in [&[1.0, 1e-9, 5.0][..], &[0.3, 0.3, 0.3], &[1e12, 1.0]] {
                assert_eq!(Striping::Measured.parts(bytes, rates).iter().sum::<u64>(), bytes, "{rates:?}");
            }
        }
    }
}
