//! Names below the roots, and how they are resolved.

pub mod resolver;
pub mod short_names;
