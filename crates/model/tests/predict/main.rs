//! Predictions of measured I/O on simulated machines.

mod by_factor;
mod under_load;
