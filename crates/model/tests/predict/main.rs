//! Predictions of measured I/O on simulated machines.

mod by_factor;
mod several_devices;
mod under_load;
