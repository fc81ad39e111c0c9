//! Places of tasks, for people and for the programs that put them there.

pub mod forms;
mod status;
mod text;

pub use status::status_text;
pub use text::{placement_text, verification_text};
