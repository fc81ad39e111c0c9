//! Memory on chosen nodes: free memory, bound buffers and page locations.

mod buffer;
mod free_memory;
mod page;
mod policy;
mod residency;

pub use buffer::{map_buffers, write_offset_lines, Buffer, BufferRequest};
pub use free_memory::FreeMemory;
pub use page::page_bytes;
pub use policy::Policy;
pub use residency::{huge_bytes, locate_pages, merge, PageLocations};
