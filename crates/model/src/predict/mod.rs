//! Prediction of a device's bandwidth for streams of several nodes.
//!
//! Two predictors use the bandwidth of each node alone. Equation 1 of Li et al. (ICPP 2013) is the
//! mean of the classes' bandwidths, weighted by their share of streams. The second predictor
//! respects limits: the path of each node, and the device's cap for all of them ([`predict`]).
//!
//! The interval of a prediction results from the lower ends of all readings, and from the upper
//! ends. Both predictors increase with every reading, so the interval holds for any readings within
//! theirs.

mod best_mix;
mod capacities;
mod curve;
mod error;
mod mix;

pub use best_mix::best_mix;
pub use capacities::{capacities, find_measured_mix, saturating_mix, CapacityInputs};
pub use error::{PredictError, MAX_DISTRIBUTED_STREAMS, MOST_STREAMS};
pub use mix::{predict, with_measurement};

#[cfg(test)]
mod tests;
