//! Prediction of a device's bandwidth for streams of several nodes.
//!
//! Two predictors use the bandwidth of each node alone. Equation 1 of Li et al. (ICPP 2013) is the
//! mean of the classes' bandwidths, weighted by their share of streams. The second one is a family
//! of models of how nodes share a device ([`SharingModel`](numaio_schema::SharingModel)), fitted to
//! measured mixes ([`predict`]).

mod best_mix;
mod capacities;
mod curve;
mod error;
mod family;
mod mix;
mod mix_inputs;
mod quantiles;
mod sharing;
mod suggest;
mod under_load;

pub use best_mix::best_mix;
pub use capacities::{capacities, find_measured_mix, measured_mixes, CapacityInputs, DeviceFit};
pub use error::{PredictError, MAX_DISTRIBUTED_STREAMS, MOST_STREAMS};
pub use mix::{predict, with_measurement};
pub use suggest::suggest_mix;
pub use under_load::{find_mix_under_load, is_under, predict_under_load, LoadInputs};

#[cfg(test)]
mod tests;
