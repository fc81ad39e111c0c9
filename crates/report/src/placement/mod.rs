//! Places of tasks, for people and for the programs that put them there.

mod numactl;
mod text;

pub use numactl::numactl;
pub use text::{placement_text, verification_text};
