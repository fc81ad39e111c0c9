//! What a device shared by streams of several nodes is predicted to give.

use crate::{DocumentError, IoEngine, Warning};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Version of [`IoPrediction`].
pub const PREDICTION_SCHEMA: &str = "numaio/prediction/1";

/// Aggregate bandwidth of a device for a mix of streams, by two predictors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoPrediction {
    /// [`PREDICTION_SCHEMA`].
    pub schema: String,
    /// Version of numaio that predicted.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Seconds since 1970 of the newest measurement behind it.
    pub measured_at: u64,
    /// What the device gives each node alone, and together: all that the predictions rest on.
    pub capacities: Capacities,
    /// The mix; none if only the best one was asked for.
    pub mix: Option<MixPrediction>,
    /// The distribution of a number of streams with the highest predicted bandwidth, if it was asked for.
    pub best: Option<MixPrediction>,
    /// What is missing or doubtful.
    pub warnings: Vec<Warning>,
}

/// What a device gives in one direction, fitted from measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacities {
    /// Name of the device.
    pub device: String,
    /// The node it hangs on; none if unknown.
    pub node: Option<NodeId>,
    /// What measured it.
    pub engine: IoEngine,
    /// Device write or device read.
    pub direction: Direction,
    /// What was asked of the device beyond direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// What each node gets alone, by node.
    pub nodes: Vec<NodeCapacity>,
    /// What the device gives all nodes together.
    pub cap: Estimate,
    /// How the cap is known.
    pub cap_source: CapSource,
    /// Bandwidth of the device's PCI Express link in this direction, which nothing exceeds; none if unknown.
    pub link_bytes_per_s: Option<f64>,
    /// How nodes share the device.
    pub sharing: Sharing,
}

/// What one node gets while no other node uses the device, its buffers local to its CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeCapacity {
    /// The node.
    pub node: NodeId,
    /// The node that was measured: itself, or the one that stands for its class.
    pub measured: NodeId,
    /// Rank of its class in the model of the device's node; none without a model.
    pub class: Option<u32>,
    /// Bandwidth by number of streams, fewest first.
    pub streams: Vec<StreamsCapacity>,
}

/// What a number of streams get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamsCapacity {
    /// How many streams.
    pub streams: u32,
    /// Of all of them together.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A bandwidth in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The bandwidth, a median where it was measured.
    pub bytes_per_s: f64,
    /// Lower end of its interval. Of a prediction: the prediction from the lower ends of all readings at once.
    pub low: f64,
    /// Upper end of its interval, likewise.
    pub high: f64,
}

/// How it is known what a device gives all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapSource {
    /// A mix of several nodes was measured to give less than its nodes alone do together.
    Mix,
    /// No mix was limited by the device: the cap is this at the least.
    AtLeast,
    /// No mix was measured: taken to be the most that one node gets.
    Assumed,
}

/// How nodes share a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sharing", rename_all = "kebab-case")]
pub enum Sharing {
    /// Each stream gets as much as any other, up to what its node's path and the device's cap allow.
    MaxMin,
    /// The device works for one stream at a time: a mix gave less than its best node alone, which no cap does.
    /// Equation 1, times this factor.
    Time {
        /// What the measured mix gave, over Equation 1.
        factor: f64,
        /// Ends of its interval.
        interval: (f64, f64),
    },
}

/// Streams of one node, with buffers local to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeStreams {
    /// The node.
    pub node: NodeId,
    /// How many.
    pub streams: u32,
}

/// A mix, and what it is predicted to give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixPrediction {
    /// Its streams, by node.
    pub streams: Vec<NodeStreams>,
    /// Equation 1 of Li et al. (ICPP 2013): the mean of the classes' bandwidths, weighted by their share of streams.
    pub equation_1: Estimate,
    /// The second predictor, which respects limits.
    pub limits: Estimate,
    /// What each node gets of it, in the order of `streams`.
    pub flows: Vec<FlowPrediction>,
    /// What was measured, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MixMeasurement>,
}

/// What the streams of one node get in a mix, by the second predictor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowPrediction {
    /// The node.
    pub node: NodeId,
    /// What they would get alone.
    pub alone: Estimate,
    /// What they get in the mix, in bytes per second.
    pub bytes_per_s: f64,
    /// What keeps them from getting more.
    #[serde(rename = "held_by")]
    pub limited_by: LimitedBy,
}

/// What keeps streams from getting more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// The path of their node, or what so few streams ask for.
    Path,
    /// The device, which others use too.
    Device,
}

/// A mix that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MixMeasurement {
    /// What it gave.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Equation 1 over it, less one.
    pub equation_1_error: f64,
    /// The second predictor over it, less one.
    pub limits_error: f64,
}

impl IoPrediction {
    /// Reads a prediction.
    ///
    /// # Errors
    /// If the text is no such document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        crate::read(text, PREDICTION_SCHEMA)
    }
}

impl Estimate {
    /// The same at both ends: what is known exactly, or assumed.
    pub fn exactly(bytes_per_s: f64) -> Self {
        Self { bytes_per_s, low: bytes_per_s, high: bytes_per_s }
    }

    /// The same arithmetic on the value and on both ends.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { bytes_per_s: change(self.bytes_per_s), low: change(self.low), high: change(self.high) }
    }
}
