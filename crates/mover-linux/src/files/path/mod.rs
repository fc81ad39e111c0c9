//! Names below the roots, and how they are resolved.

mod beneath;
mod resolved_name;
mod resolver;
mod short_names;

pub use beneath::walk;
pub use resolved_name::ResolvedName;
pub use resolver::Resolver;
pub use short_names::reject_short_name;
