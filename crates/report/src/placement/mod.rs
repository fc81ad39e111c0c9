//! Places of tasks, for people and for the programs that put them there.

mod numactl;
mod status;
mod text;

pub use numactl::numactl;
pub use status::status_text;
pub use text::{placement_text, verification_text};
