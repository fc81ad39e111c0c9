//! Memory on chosen nodes: free memory, bound buffers and page locations.

mod buffer;
mod free_memory;
mod page;
mod policy;
mod residency;

pub use buffer::{map_buffers, Buffer, BufferRequest};
pub use free_memory::FreeMemory;
pub use page::page_bytes;

pub(crate) use buffer::write_offset_lines;
pub(crate) use policy::Policy;
pub(crate) use residency::{huge_bytes, locate_pages, merge, page_states, PageLocations};
