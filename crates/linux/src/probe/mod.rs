//! Memory workloads on this machine.

mod buffer_pass;
mod chain;
mod copy;
pub(crate) mod curve;
mod latency;
mod neighbors;
mod passes;
mod repetitions;
mod stream;
pub(crate) mod team;
pub(crate) mod window;

pub use copy::copy;
pub use latency::latency;
pub use neighbors::loaded;
pub use stream::stream;
