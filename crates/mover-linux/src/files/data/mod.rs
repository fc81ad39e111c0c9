//! Reading and writing the content of files.

mod block;
mod cached_io;
mod checksum;
mod direct;
mod open_in_place;
mod read;
mod write;

pub use block::{Block, BlockOperation, Request, Started};
pub use cached_io::write_all;
pub use checksum::checksum;
pub use read::finish_read;
pub use write::rename;
