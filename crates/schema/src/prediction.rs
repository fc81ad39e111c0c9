//! Predicted bandwidth of a device shared by streams of several nodes.

use crate::{IoEngine, Load, Warning};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::{Deserialize, Serialize};

/// Aggregate bandwidth of a device for a mix of streams, by two predictors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoPrediction {
    /// [`PREDICTION_SCHEMA`](crate::PREDICTION_SCHEMA).
    pub schema: String,
    /// Version of numaio that predicted.
    pub numaio: String,
    /// The machine.
    pub machine: Identity,
    /// Time of the newest underlying measurement, in seconds since 1970.
    pub measured_at: u64,
    /// The capacities of the device for each node alone and for all together, the only input of the
    /// predictions.
    pub capacities: Capacities,
    /// The requested mix; `None` if only the best mix was requested.
    pub mix: Option<MixPrediction>,
    /// The distribution of a number of streams with the highest predicted bandwidth, if requested.
    pub best: Option<MixPrediction>,
    /// The mix while STREAM threads load memory, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<LoadedPrediction>,
    /// The mix whose measurement improves predictions most, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested: Option<SuggestedMix>,
    /// Missing or doubtful data.
    pub warnings: Vec<Warning>,
}

/// Bandwidth of a mix that is left while STREAM threads load memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadedPrediction {
    /// The loads.
    pub loads: Vec<Load>,
    /// The streams of each node alone beside the loads, in the order of the mix.
    pub nodes: Vec<NodeUnderLoad>,
    /// The mix beside the loads.
    pub mix: MixPrediction,
}

/// Streams of one node, alone on the device, beside loads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeUnderLoad {
    /// The node.
    pub node: NodeId,
    /// Their bandwidth without load.
    pub unloaded: Estimate,
    /// Their bandwidth beside the loads.
    pub loaded: Estimate,
    /// The basis of the latter.
    pub basis: LoadBasis,
}

/// The basis of a prediction under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoadBasis {
    /// No load uses the node.
    Unloaded,
    /// The node was measured under these loads.
    Measured,
    /// The node was measured under loads of other numbers of threads.
    OtherLoads,
    /// STREAM bandwidth of the node's memory.
    Stream,
}

/// A mix worth measuring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SuggestedMix {
    /// The streams, by node.
    pub streams: Vec<NodeStreams>,
    /// The models' predictions for it, most probable first.
    pub predictions: Vec<ModelPrediction>,
    /// Relative standard deviation of the predictions that it is expected to improve, before it is
    /// measured.
    pub deviation_before: f64,
    /// The same after it is measured.
    pub deviation_after: f64,
}

/// The capacities of a device in one direction, fitted from measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Capacities {
    /// Name of the device.
    pub device: String,
    /// The node it is attached to; `None` if unknown.
    pub node: Option<NodeId>,
    /// The engine of the measurements.
    pub engine: IoEngine,
    /// Device write or device read.
    pub direction: Direction,
    /// The operation beyond the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Bytes of one request, message or transfer.
    pub block_bytes: u64,
    /// The capacity of each node alone, by node.
    pub nodes: Vec<NodeCapacity>,
    /// Bandwidth of the PCI Express link in this direction, an upper bound; `None` if unknown.
    pub link_bytes_per_s: Option<f64>,
    /// Number of measured mixes that the sharing models are fitted to.
    pub fitted_mixes: u32,
    /// Models of how nodes share the device, most probable first.
    pub sharing: Vec<SharingFit>,
}

/// The capacity of one node that uses the device alone, with buffers local to its CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeCapacity {
    /// The node.
    pub node: NodeId,
    /// The measured node: this one, or the representative of its class.
    pub measured: NodeId,
    /// Rank of its class in the model of the device's node; `None` without a model.
    pub class: Option<u32>,
    /// Bandwidth by number of streams, fewest first.
    pub streams: Vec<StreamsCapacity>,
}

/// The bandwidth of a number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StreamsCapacity {
    /// Number of streams.
    pub streams: u32,
    /// The bandwidth of all streams together.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A bandwidth in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The bandwidth; for measurements the median.
    pub bytes_per_s: f64,
    /// Lower end of the interval; for a prediction, computed from the lower ends of all readings.
    pub low: f64,
    /// Upper end of the interval; for a prediction, computed from the upper ends of all readings.
    pub high: f64,
}

/// A model of how streams of several nodes share a device. Each predicts the bandwidth of a mix
/// from the bandwidth of each node alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SharingModel {
    /// Bytes are shared max-min fairly under the nodes' paths and a cap.
    Bytes,
    /// The device serves one stream at a time, for equal times: Equation 1 of Li et al. (ICPP
    /// 2013), scaled.
    TimeByStreams,
    /// The device serves one node at a time, for equal times, or times in proportion to weights.
    TimeByNodes,
    /// The device serves one request at a time, in turn from each stream or node: equal bytes.
    Requests,
    /// Some nodes share a link, and all nodes a cap.
    SharedLink,
    /// The device holds a fixed number of requests, each for the latency of its node (Little's
    /// law).
    InFlight,
    /// A number of cores of the host moves the bytes.
    Cores,
    /// The host copies bytes of remote nodes more often than those of the device's node.
    Copies,
}

/// A sharing model, fitted to measured mixes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SharingFit {
    /// The model.
    pub model: SharingModel,
    /// Probability of the model among all models, from 0 to 1.
    pub probability: f64,
    /// Root mean square of the relative errors with which it predicts each measured mix from the
    /// others; `None` with fewer than two mixes.
    pub leave_one_out: Option<f64>,
    /// The most probable values of its parameters.
    pub parameters: Vec<SharingParameter>,
    /// Nodes behind the shared link; empty for other models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link_nodes: Vec<NodeId>,
}

/// A parameter of a sharing model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SharingParameter {
    /// The name: `cap` or `link` in bytes per second; `factor`, `streams`, `cores` or `copies`
    /// without unit.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// Streams of one node, with local buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeStreams {
    /// The node.
    pub node: NodeId,
    /// Number of streams.
    pub streams: u32,
}

/// A mix and its predicted bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MixPrediction {
    /// The streams, by node.
    pub streams: Vec<NodeStreams>,
    /// Equation 1 of Li et al. (ICPP 2013): mean bandwidth of the classes, weighted by their share
    /// of streams.
    pub equation_1: Estimate,
    /// The prediction of the sharing models, each by its probability. The value is the median, the
    /// interval contains the bandwidth with 95 %.
    pub limits: Estimate,
    /// The most probable model's own prediction.
    #[serde(default)]
    pub selected: Option<ModelPrediction>,
    /// Other probable models whose prediction is outside the selected one's interval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<ModelPrediction>,
    /// The bandwidth of each node, in the order of `streams`.
    pub flows: Vec<FlowPrediction>,
    /// The measured bandwidth, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MixMeasurement>,
}

/// The prediction of one sharing model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ModelPrediction {
    /// The model.
    pub model: SharingModel,
    /// Probability of the model, from 0 to 1.
    pub probability: f64,
    /// The predicted bandwidth of the mix.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// The predicted bandwidth of one node's streams in a mix, by the second predictor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FlowPrediction {
    /// The node.
    pub node: NodeId,
    /// Bandwidth without the other nodes.
    pub alone: Estimate,
    /// Bandwidth in the mix, in bytes per second.
    pub bytes_per_s: f64,
    /// The limiting resource.
    pub limited_by: LimitedBy,
}

/// The resource that limits streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// The path of the node, or the number of streams.
    Path,
    /// The device, which other nodes share.
    Device,
}

/// A measured mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MixMeasurement {
    /// The measured bandwidth.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Relative error of Equation 1.
    pub equation_1_error: f64,
    /// Relative error of the second predictor.
    pub limits_error: f64,
}

impl Estimate {
    /// Creates an estimate without an interval, for exact or assumed values.
    pub fn exactly(bytes_per_s: f64) -> Self {
        Self { bytes_per_s, low: bytes_per_s, high: bytes_per_s }
    }

    /// Applies a function to the value and both ends of the interval.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self { bytes_per_s: function(self.bytes_per_s), low: function(self.low), high: function(self.high) }
    }
}
