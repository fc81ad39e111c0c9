//! Campaigns on machines whose figures are scripted or simulated, in a single test binary.

mod campaign;
mod io;
mod latency;
mod stream;
mod topology;
