//! Memory on chosen nodes: whether it is there, mapping it, and where it came to lie.

mod buffer;
mod free_memory;
mod policy;
mod residency;

pub use buffer::{map_buffers, write_offset_lines, Buffer, BufferRequest};
pub use free_memory::FreeMemory;
pub use policy::Policy;
pub use residency::{huge_bytes, locate_pages, merge, PageLocations};
