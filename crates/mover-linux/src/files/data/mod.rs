//! Reading and writing the content of files.

pub mod checksum;
pub mod direct;
pub mod read;
pub mod write;
