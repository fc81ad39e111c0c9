//! What a device gives streams of several nodes at once.
//!
//! Two predictors, both from what each node gets alone. Equation 1 of Li et al. (ICPP 2013) is the mean of the classes'
//! bandwidths, weighted by their share of streams. The second one respects limits: the path of each node, and what the
//! device gives all of them together ([`predict`]).
//!
//! The interval of a prediction is the prediction from the lower ends of all readings at once, and from the upper ends.
//! Both predictors rise with every reading, so it holds whatever the readings are within their own intervals.

mod best_mix;
mod capacities;
mod curve;
mod mix;

pub use best_mix::best_mix;
pub use capacities::{capacities, find_measured_mix, saturating_mix, CapacityInputs};
pub use mix::{predict, with_measurement};

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;

/// Most streams of a mix.
pub const MOST_STREAMS: u32 = 4096;
/// Most streams whose best distribution is looked for.
pub const MAX_DISTRIBUTED_STREAMS: u32 = 128;

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// Nothing is known of the device in this direction.
    #[error("no {} of the device was measured", .direction.name())]
    NothingMeasured {
        /// The direction.
        direction: Direction,
    },
    /// Nothing is known of a node.
    #[error("node {node} was not measured, and no measured node is of its class; known are nodes {known}")]
    NotMeasured {
        /// The node.
        node: NodeId,
        /// Nodes that are known.
        known: NodeSet,
    },
    /// A mix without streams.
    #[error("there are no streams in it")]
    NoStreams,
    /// More streams than can be.
    #[error("{streams} streams are too many; {most} are allowed")]
    TooMany {
        /// How many.
        streams: u32,
        /// How many are allowed.
        most: u32,
    },
}

#[cfg(test)]
mod tests;
