//! Formats placement plans, for users and for the tools that apply them.

pub mod forms;
mod status;
mod text;

pub use status::status_text;
pub use text::{placement_text, verification_text};
