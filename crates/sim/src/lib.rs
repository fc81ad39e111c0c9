//! A simulated NUMA machine.
//!
//! A [`Spec`] describes a machine; [`render()`] shows it as Linux would, as a tree of /sys and /proc files, so
//! that the real parsers run on it; and [`Simulated`] runs workloads on it by sharing its paths and links
//! max-min fairly, with seeded noise. [`mover`] is a disk for movers. [`execute`](mod@execute) carries a transfer out chunk by chunk. It knows nothing of the models that are fitted to it.

mod check;
pub mod execute;
pub mod mover;
mod noise;
pub mod render;
pub mod shapes;
pub mod sharing;
mod simulated;
pub mod spec;
mod wiring;
mod write;

pub use render::render;
pub use simulated::Simulated;
pub use spec::{BadSpec, Spec};
pub use write::write_tree;
