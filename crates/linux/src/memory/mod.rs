//! Memory on chosen nodes: free memory, bound buffers and page locations.

mod buffer;
mod free_memory;
mod policy;
mod residency;

pub use buffer::{map_buffers, write_offset_lines, Buffer, BufferRequest};
pub use free_memory::FreeMemory;
pub use policy::Policy;
pub use residency::{huge_bytes, locate_pages, merge, PageLocations};
