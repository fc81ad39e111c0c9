//! Campaigns on scripted and simulated machines.

mod aggregate;
mod campaign;
mod io;
mod latency;
mod mmio;
mod ping;
mod stream;
mod sweep;
mod topology;
mod under_load;
