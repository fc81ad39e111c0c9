//! A simulated NUMA machine.
//!
//! A [`Spec`] describes a machine; [`render()`] renders it as Linux does, as a tree of /sys and
//! /proc files for the real parsers; and [`Simulated`] runs workloads on it by sharing its paths
//! and links max-min fairly, with seeded noise. [`execute`](mod@execute) simulates a transfer chunk
//! by chunk. The crate does not depend on the models that are fitted to it.

mod check;
pub mod devices;
pub mod execute;
pub mod fleet;
mod noise;
pub mod render;
pub mod shapes;
pub mod sharing;
mod simulated;
mod simulated_program;
pub mod spec;
mod wiring;
mod write;

pub use render::render;
pub use simulated::Simulated;
pub use simulated_program::SimulatedProgram;
pub use spec::{BadSpec, Spec};
pub use write::write_tree;
