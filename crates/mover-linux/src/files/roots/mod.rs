//! State of the roots between operations.

pub mod in_place;
pub mod page_cache;
