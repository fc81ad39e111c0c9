//! Limits and errors of predictions.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;

/// Maximum number of streams of a mix.
pub const MOST_STREAMS: u32 = 4096;
/// Maximum number of streams of [`best_mix`](super::best_mix).
pub const MAX_DISTRIBUTED_STREAMS: u32 = 128;

/// Error of a prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The device was not measured in this direction.
    #[error("no {} of the device was measured", .direction.name())]
    NothingMeasured {
        /// The direction.
        direction: Direction,
    },
    /// The bandwidth of a node is unknown.
    #[error("node {node} was not measured, and no measured node is of its class; known are nodes {known}")]
    NotMeasured {
        /// The node.
        node: NodeId,
        /// Nodes with known bandwidth.
        known: NodeSet,
    },
    /// The bandwidth of a node beside loads is unknown.
    #[error("what the load leaves to node {node} is unknown: neither its STREAM bandwidth nor I/O under another load was measured")]
    LoadUnknown {
        /// The node.
        node: NodeId,
    },
    /// The mix has no streams.
    #[error("the mix has no streams")]
    NoStreams,
    /// The mix has too many streams.
    #[error("too many streams: {streams}, expected at most {most}")]
    TooMany {
        /// Number of streams.
        streams: u32,
        /// Maximum number of streams.
        most: u32,
    },
}
