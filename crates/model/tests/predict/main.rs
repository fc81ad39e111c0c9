//! Predictions of measured I/O on simulated machines.

mod under_load;
