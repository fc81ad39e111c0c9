//! Memory on chosen nodes: whether it is there, mapping it, and where it came to lie.

mod buffer;
mod policy;
mod residency;
mod room;

pub use buffer::{buffers, written_at, Buffer, Wanted};
pub use policy::Policy;
pub use residency::{huge_bytes, look, merge, Seen};
pub use room::Room;
