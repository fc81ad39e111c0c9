//! Streams between memory and devices.

pub mod tcp;
